package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/quotakinds"
)

const (
	// fieldManager owns the fields written by an import.
	fieldManager = "bursar-import"
	// deletionTimeout bounds the wait for the end of the deletion of the kind of consumers.
	deletionTimeout = time.Minute
	// activeTimeout bounds the wait until the written grants count.
	activeTimeout = 2 * time.Minute
)

var (
	definitions   = quotakinds.ConsumerDefinitions.GroupVersionResource
	clusterRoles  = quotakinds.ImportedRoles.GroupVersionResource
	namespacesAPI = quotakinds.Namespaces.GroupVersionResource
	consumersAPI  = quotakinds.Consumers.GroupVersionResource
	registrations = quotav1alpha1.GroupVersion.WithResource("resourceregistrations")
	grants        = quotav1alpha1.GroupVersion.WithResource("resourcegrants")
	claimPolicies = quotav1alpha1.GroupVersion.WithResource("claimcreationpolicies")
	grantPolicies = quotav1alpha1.GroupVersion.WithResource("grantcreationpolicies")
	claimsAPI     = quotav1alpha1.GroupVersion.WithResource("resourceclaims")

	admissionPolicies = quotakinds.ImportedProtections.GroupVersionResource
	admissionBindings = quotakinds.ProtectionBindings.GroupVersionResource
)

// write writes a plan, and deletes the leftovers of earlier imports. While it runs, no enforced policy charges for a
// limit without its grant: new allowances come before the policies, and those without use go after them.
func (i *importer) write(ctx context.Context, plan *Plan, before *earlier) error {
	all, err := plan.placed(i.From)
	if err != nil {
		return err
	}
	lowered := before.widen(plan, all)
	written := map[string]bool{}
	for _, each := range all {
		written[keyOf(each.resource, each.object)] = true
	}
	if all, err = i.changes(all, before); err != nil {
		return err
	}
	if lowered, err = i.changes(lowered, before); err != nil {
		return err
	}
	first := slices.IndexFunc(all, func(p placed) bool { return p.resource == grantPolicies || p.resource == claimPolicies })
	if first < 0 {
		first = len(all)
	}
	if err := i.writeAll(ctx, plan, all[:first]); err != nil {
		return err
	}
	if err := i.unlist(ctx, func(namespace string) bool { return len(plan.Limited[namespace]) > 0 }); err != nil {
		return err
	}
	// Bursar applies changed policies to existing objects, with the namespaces as they are from now on.
	if err := i.writeAll(ctx, plan, all[first:]); err != nil {
		return err
	}
	isUsed := func(resource schema.GroupVersionResource, object metav1.Object) bool {
		key := keyOf(resource, object)
		return written[key] || plan.kept[key] || isInPlace(object)
	}
	if err := i.prune(ctx, before, isUsed, claimPolicies, grantPolicies); err != nil {
		return err
	}
	if err := i.removeClaimsWithoutPolicy(ctx, before); err != nil {
		return err
	}
	if err := i.writeStage(ctx, lowered); err != nil {
		return err
	}
	return i.prune(ctx, before, isUsed, grants, registrations, consumersAPI) // a registration stays while a grant names it
}

// writeAll writes objects of several resources, in their order.
func (i *importer) writeAll(ctx context.Context, plan *Plan, all []placed) error {
	for stage := range stages(all) {
		if err := i.writeStage(ctx, stage); err != nil {
			return err
		}
		if stage[0].resource == grants && plan.isEnforced() {
			if err := i.awaitGrants(ctx, stage); err != nil {
				return err
			}
		}
	}
	return nil
}

// stages yields consecutive objects of the same resource.
func stages(all []placed) func(func([]placed) bool) {
	return func(yield func([]placed) bool) {
		for len(all) > 0 {
			n := 1
			for n < len(all) && all[n].resource == all[0].resource {
				n++
			}
			if !yield(all[:n]) {
				return
			}
			all = all[n:]
		}
	}
}

// writeStage writes objects of one resource in any order.
func (i *importer) writeStage(ctx context.Context, stage []placed) error {
	if len(stage) == 0 {
		return nil
	}
	switch stage[0].resource {
	case definitions:
		if err := i.awaitDeletion(ctx, definitions, stage[0].object.GetName()); err != nil {
			return err
		}
	case consumersAPI:
		if err := quotakinds.AwaitConsumers(ctx, i.api); err != nil {
			return err
		}
	}
	group, writing := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	for _, each := range stage {
		group.Go(func() error { return i.apply(writing, each, false) })
	}
	return group.Wait()
}

// isEnforced reports whether a policy of the plan enforces.
func (p *Plan) isEnforced() bool {
	return slices.ContainsFunc(p.Policies, func(c *quotav1alpha1.ClaimCreationPolicy) bool { return isEnforced(modeOf(c)) })
}

// widen adds to the grants in objects the allowances that earlier imports gave and the plan no longer gives. It returns
// these grants as planned, to write them once no policy charges for the allowances.
func (e *earlier) widen(plan *Plan, objects []placed) []placed {
	if !plan.isEnforced() && len(e.enforcedTypes()) == 0 {
		return nil
	}
	present := map[string]*unstructured.Unstructured{}
	for _, object := range e.objects[grants] {
		present[quotakinds.Name(object)] = object
	}
	var planned []placed
	for _, each := range objects {
		g := present[quotakinds.Name(each.object)]
		if each.resource != grants || g == nil || isInPlace(each.object) {
			continue
		}
		allowances, more := allowancesOf(each.object), []any{}
		for _, a := range allowancesOf(g) {
			isPlanned := slices.ContainsFunc(allowances, func(b any) bool { return typeOf(a) == typeOf(b) })
			if !isPlanned && len(allowances)+len(more) < allowancesMax {
				more = append(more, a)
			}
		}
		if len(more) == 0 {
			continue
		}
		planned = append(planned, placed{resource: grants, object: each.object.DeepCopy()})
		each.object.Object["spec"].(map[string]any)["allowances"] = append(allowances, more...)
	}
	return planned
}

func allowancesOf(grant *unstructured.Unstructured) []any {
	allowances, _, _ := unstructured.NestedSlice(grant.Object, "spec", "allowances") //nolint:errcheck // the schema has a list there
	return allowances
}

// typeOf returns the resource type of an allowance.
func typeOf(allowance any) any {
	fields, _ := allowance.(map[string]any)
	return fields["resourceType"]
}

func keyOf(resource schema.GroupVersionResource, object metav1.Object) string {
	return resource.String() + " " + object.GetNamespace() + "/" + object.GetName()
}

// apply writes an object. It leaves alone deleted ones of others, and those of ended namespaces.
func (i *importer) apply(ctx context.Context, each placed, isDryRun bool) error {
	if i.ended.has(each.namespace()) {
		return nil
	}
	how, content, options := types.ApplyPatchType, any(each.object.Object), metav1.PatchOptions{FieldManager: fieldManager, Force: new(true)}
	if each.change != nil {
		how, content, options.Force = types.MergePatchType, each.change, nil
	}
	if isDryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	encoded, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encode %s %s: %w", each.object.GetKind(), each.object.GetName(), err)
	}
	_, err = i.api.Resource(each.resource).Namespace(each.object.GetNamespace()).Patch(ctx, each.object.GetName(), how, encoded, options)
	if err == nil || isInPlace(each.object) && apierrors.IsNotFound(err) {
		return nil
	}
	if each.change != nil && each.marks() == nil && apierrors.IsNotFound(err) {
		each.change = nil // somebody has deleted it since: write all of it
		return i.apply(ctx, each, isDryRun)
	}
	isLeftOut, errRead := i.noteEnded(ctx, each.namespace(), err)
	if isLeftOut {
		return nil
	}
	return fmt.Errorf("write %s: %w", objectRef(each.object.GetKind(), each.object.GetNamespace(), each.object.GetName()), errors.Join(err, errRead))
}

// awaitDeletion waits until the deletion of a cluster-scoped object ends.
func (i *importer) awaitDeletion(ctx context.Context, resource schema.GroupVersionResource, name string) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, deletionTimeout, true, func(ctx context.Context) (bool, error) {
		found, err := i.api.Resource(resource).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return err == nil && found.GetDeletionTimestamp() == nil, err
	})
	if err != nil {
		return fmt.Errorf("wait until the deleted %s %s is gone: %w", resource.GroupResource(), name, err)
	}
	return nil
}

// awaitGrants waits until Bursar has processed written grants. An enforced policy must not find a new limit missing.
func (i *importer) awaitGrants(ctx context.Context, stage []placed) error {
	waiting, isWritten := "", map[string]bool{}
	for _, each := range stage {
		isWritten[quotakinds.Name(each.object)] = true
	}
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, activeTimeout, true, func(ctx context.Context) (bool, error) {
		all, err := i.imported(ctx, grants)
		if err != nil {
			return false, err
		}
		waiting = ""
		for _, object := range all {
			observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration") //nolint:errcheck // the schema has a number there
			if observed != object.GetGeneration() && object.GetDeletionTimestamp() == nil && isWritten[quotakinds.Name(object)] {
				waiting = quotakinds.Name(object)
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil && waiting != "" {
		return fmt.Errorf("wait until Bursar has processed ResourceGrant %s: %w; does Bursar run?", waiting, err)
	}
	return err
}

// imported lists the objects of a resource written by imports from the former system.
func (i *importer) imported(ctx context.Context, resource schema.GroupVersionResource) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	err := quotakinds.EachWith(ctx, i.api, resource, quotav1alpha1.LabelImportedFrom+"="+i.From, func(object *unstructured.Unstructured) error {
		all = append(all, object)
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return all, err
}

// SetMode sets the mode of the policies of an earlier import, and returns how many there are.
func SetMode(ctx context.Context, o Options, mode quotav1alpha1.EnforcementMode) (int, error) {
	if !slices.Contains(modes, mode) {
		return 0, fmt.Errorf("there is no mode %q; choose Audit, Warn or Enforce", mode)
	}
	i, err := newImporter(o)
	if err != nil {
		return 0, err
	}
	policies, err := i.imported(ctx, claimPolicies)
	if err != nil {
		return 0, err
	}
	patch := []byte(`{"spec":{"enforcementMode":"` + string(mode) + `"}}`)
	for _, policy := range policies {
		if o.DryRun {
			continue
		}
		_, err := i.api.Resource(claimPolicies).Patch(ctx, policy.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
		if err != nil {
			return 0, fmt.Errorf("set the mode of ClaimCreationPolicy %s: %w", policy.GetName(), err)
		}
	}
	return len(policies), nil
}
