package grant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/ledger"
)

// byNameMax is the largest number of a consumer's grants to read by name. Beyond it a list is cheaper, although the API
// server compares the grants of all consumers for it.
const byNameMax = 8

// verify evaluates the grants of a consumer from the cache and from its ledger. If the two differ, it reads from the
// API server. So a stale cache cannot add a deleted grant to the ledger, or remove a new one. Any other change unknown
// to the cache arrives as an event.
func (r *Reconciler) verify(ctx context.Context, consumer quotav1alpha1.ConsumerRef, cached []*quotav1alpha1.ResourceGrant, held []ledger.Grant) ([]ledger.Grant, []result, error) {
	grants := slices.Clone(cached)
	verified := map[client.ObjectKey]bool{}
	for {
		active, results := r.evaluate(grants, r.Clock.Now(), r.capsOf(consumer, held))
		doubtful := slices.DeleteFunc(difference(active, held), func(name client.ObjectKey) bool { return verified[name] })
		switch {
		case len(doubtful) == 0:
			return active, results, nil
		case len(verified)+len(doubtful) > byNameMax:
			named := client.MatchingFields{"spec.consumerRef.kind": consumer.Kind, "spec.consumerRef.name": consumer.Name}
			all, err := grantsOf(ctx, r.Live, consumer, named)
			if err != nil {
				return nil, nil, err
			}
			active, results = r.evaluate(all, r.Clock.Now(), r.capsOf(consumer, held))
			return active, results, nil
		}
		// Each may make room for another, or take it, so verify evaluates all again.
		for _, name := range doubtful {
			var err error
			if grants, err = r.readAgain(ctx, consumer, grants, name); err != nil {
				return nil, nil, err
			}
			verified[name] = true
		}
	}
}

// errUndecided means that a grant depends on a registration that is not in the catalog yet.
var errUndecided = errors.New("a registration is not decided yet")

// checkAllowed returns errUndecided if the catalog may soon allow a new or changed grant that it does not allow now. So
// a grant that follows a new or changed registration never stops counting.
func (r *Reconciler) checkAllowed(ctx context.Context, results []result) error {
	var doubtful []*quotav1alpha1.ResourceGrant
	var resourceTypes []string
	for _, v := range results {
		if v.isNotAllowed && v.grant.Status.ObservedGeneration != v.grant.Generation {
			doubtful = append(doubtful, v.grant)
			resourceTypes = append(resourceTypes, v.grant.Spec.ResourceTypes()...)
		}
	}
	if len(doubtful) == 0 {
		return nil
	}
	isUndecided, err := catalog.Undecided(ctx, r.Live, resourceTypes, func(current *catalog.Catalog) (err error) {
		for _, grant := range doubtful {
			if err = current.CheckGrant(&grant.Spec); err == nil {
				return nil
			}
		}
		return err
	})
	if isUndecided {
		return errUndecided
	}
	return err
}

// readAgain replaces a named grant of a consumer with the one on the API server.
func (r *Reconciler) readAgain(ctx context.Context, consumer quotav1alpha1.ConsumerRef, grants []*quotav1alpha1.ResourceGrant, name client.ObjectKey) ([]*quotav1alpha1.ResourceGrant, error) {
	grants = slices.DeleteFunc(grants, func(g *quotav1alpha1.ResourceGrant) bool { return client.ObjectKeyFromObject(g) == name })
	current := &quotav1alpha1.ResourceGrant{}
	switch err := r.Live.Get(ctx, name, current); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return nil, fmt.Errorf("read ResourceGrant %s: %w", name, err)
	case counts(current, consumer):
		grants = append(grants, current)
		slices.SortFunc(grants, byAge)
	}
	return grants, nil
}

// difference returns the names of the grants that differ between both.
func difference(some, others []ledger.Grant) []client.ObjectKey {
	byUID := make(map[string]ledger.Grant, len(others))
	for _, g := range others {
		byUID[g.UID] = g
	}
	names := map[client.ObjectKey]struct{}{}
	for _, g := range some {
		if other, ok := byUID[g.UID]; !ok || !same(g, other) {
			names[client.ObjectKey{Namespace: g.Namespace, Name: g.Name}] = struct{}{}
		}
		delete(byUID, g.UID)
	}
	for _, g := range byUID {
		names[client.ObjectKey{Namespace: g.Namespace, Name: g.Name}] = struct{}{}
	}
	return slices.Collect(maps.Keys(names))
}

func same(a, b ledger.Grant) bool {
	return a.UID == b.UID && a.Generation == b.Generation && a.Namespace == b.Namespace && a.Name == b.Name && slices.Equal(a.Allowances, b.Allowances)
}

// consumerField indexes the cached grants by consumer.
const consumerField = "consumer"

func byConsumer(consumer quotav1alpha1.ConsumerRef) client.MatchingFields {
	return client.MatchingFields{consumerField: consumer.Kind + "/" + consumer.Name}
}

// grantsOf reads the selected grants of a consumer, the oldest first.
func grantsOf(ctx context.Context, from client.Reader, consumer quotav1alpha1.ConsumerRef, selected client.MatchingFields) ([]*quotav1alpha1.ResourceGrant, error) {
	var list quotav1alpha1.ResourceGrantList
	if err := from.List(ctx, &list, selected); err != nil {
		return nil, fmt.Errorf("list the grants of %s %s: %w", consumer.Kind, consumer.Name, err)
	}
	var grants []*quotav1alpha1.ResourceGrant
	for i := range list.Items {
		if counts(&list.Items[i], consumer) {
			grants = append(grants, &list.Items[i])
		}
	}
	slices.SortFunc(grants, byAge)
	return grants, nil
}

// counts reports whether a grant belongs to a consumer.
func counts(grant *quotav1alpha1.ResourceGrant, consumer quotav1alpha1.ConsumerRef) bool {
	return grant.Spec.ConsumerRef == consumer && grant.DeletionTimestamp == nil
}

func byAge(a, b *quotav1alpha1.ResourceGrant) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
