package importer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// errorsMax bounds the reported objects of an import that the server would reject.
const errorsMax = 10

// check returns an error if the server would reject a part of a plan, or if the plan would change objects that do not
// belong to the import. Nothing is written until then.
func (i *importer) check(ctx context.Context, plan *Plan, before *earlier) error {
	if len(plan.Audited) > 0 && !i.InPlace {
		return fmt.Errorf("without --source-kubeconfig and --source-context, the import takes over the objects on this server itself, and policies that enforce now "+
			"would only count: %s; if they are for Milo, repeat the command with --in-place; if they are for Bursar, leave them out by the label %s=none",
			strings.Join(firstOf(plan.Audited), ", "), quotav1alpha1.LabelImportedFrom)
	}
	all, err := plan.placed(i.From)
	if err != nil {
		return err
	}
	if twice := repeated(all); len(twice) > 0 {
		return fmt.Errorf("the import would write two objects of these names, because it divides one with more than %d allowances: %s; rename one of them in the other system",
			allowancesMax, strings.Join(firstOf(twice), ", "))
	}
	var taken []string
	for _, each := range all {
		from, isTaken := before.others[keyOf(each.resource, each.object)]
		if !isTaken || isInPlace(each.object) {
			continue
		}
		name := objectRef(each.object.GetKind(), each.object.GetNamespace(), each.object.GetName())
		if from != "" {
			name += " of an import from " + from
		}
		taken = append(taken, name)
	}
	if len(taken) > 0 {
		return fmt.Errorf("this server already has objects with the names of those to import: %s; delete or rename them on one of the servers", strings.Join(firstOf(taken), ", "))
	}
	if all, err = i.changes(all, before); err != nil {
		return err
	}
	return i.validate(ctx, all)
}

// repeated returns the names of the objects that are there more than once.
func repeated(all []placed) []string {
	var names []string
	isSeen := map[string]bool{}
	for _, each := range all {
		key := keyOf(each.resource, each.object)
		if isSeen[key] {
			names = append(names, objectRef(each.object.GetKind(), each.object.GetNamespace(), each.object.GetName()))
		}
		isSeen[key] = true
	}
	return names
}

func firstOf(names []string) []string {
	if len(names) <= errorsMax {
		return names
	}
	return append(names[:errorsMax:errorsMax], fmt.Sprintf("and %d more", len(names)-errorsMax))
}

// validate writes everything in a dry run, except for kinds that the server lacks until the import.
func (i *importer) validate(ctx context.Context, all []placed) error {
	var mu sync.Mutex
	var errs []error
	group, validating := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	for _, each := range all {
		if each.resource == consumersAPI {
			continue
		}
		group.Go(func() error {
			err := i.apply(validating, each, true)
			mu.Lock()
			defer mu.Unlock()
			if err != nil && len(errs) < errorsMax {
				errs = append(errs, err)
			}
			return nil
		})
	}
	err := group.Wait()
	if err := errors.Join(append(errs, err)...); err != nil {
		return fmt.Errorf("nothing was written, because the server would reject a part of the import: %w", err)
	}
	return nil
}
