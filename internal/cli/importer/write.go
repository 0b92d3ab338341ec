package importer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

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
)

// placed is an object to write.
type placed struct {
	resource schema.GroupVersionResource
	object   *unstructured.Unstructured
}

// Objects returns the objects of an import, in its order, as declarations.
func (p *Plan) Objects(source string) ([]*unstructured.Unstructured, error) {
	all, err := p.placed(source)
	objects := make([]*unstructured.Unstructured, 0, len(all))
	for _, each := range all {
		objects = append(objects, each.object)
	}
	return objects, err
}

func (p *Plan) placed(source string) ([]placed, error) {
	var all []placed
	if len(p.Consumers) > 0 {
		all = append(all, placed{definitions, consumerDefinition()}, placed{clusterRoles, p.role(source)})
	}
	for _, name := range sortedKeys(p.Profiles) {
		all = append(all, placed{namespacesAPI, objectOf("v1", "Namespace", "", name, map[string]string{LabelImportedLimits: p.Profiles[name]})})
	}
	for _, c := range p.Consumers {
		labels := map[string]string{LabelImportedFrom: source}
		all = append(all, placed{consumersAPI, objectOf(consumersAPI.GroupVersion().String(), consumerKind, c.Namespace, c.Name, labels)})
	}
	var err error
	for _, r := range p.Registrations {
		all, err = appendPlaced(all, err, registrations, "ResourceRegistration", r)
	}
	for _, g := range p.Grants {
		all, err = appendPlaced(all, err, grants, "ResourceGrant", g)
	}
	for _, g := range p.GrantPolicies {
		all, err = appendPlaced(all, err, grantPolicies, "GrantCreationPolicy", g)
	}
	for _, c := range p.Policies {
		all, err = appendPlaced(all, err, claimPolicies, "ClaimCreationPolicy", c)
	}
	return all, err
}

func appendPlaced(all []placed, earlier error, resource schema.GroupVersionResource, kind string, object any) ([]placed, error) {
	if earlier != nil {
		return all, earlier
	}
	content, err := json.Marshal(object)
	if err != nil {
		return all, fmt.Errorf("encode a %s: %w", kind, err)
	}
	fields := map[string]any{}
	if err := json.Unmarshal(content, &fields); err != nil {
		return all, fmt.Errorf("encode a %s: %w", kind, err)
	}
	delete(fields, "status")
	u := &unstructured.Unstructured{Object: fields}
	u.SetAPIVersion(resource.GroupVersion().String())
	u.SetKind(kind)
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	return append(all, placed{resource, u}), nil
}

func objectOf(version, kind, namespace, name string, labels map[string]string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion(version)
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetLabels(labels)
	return u
}

// consumerDefinition defines the kind of imported consumers.
func consumerDefinition() *unstructured.Unstructured {
	u := objectOf("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", consumersAPI.GroupResource().String(), nil)
	u.Object["spec"] = map[string]any{
		"group": consumerGroup, "scope": "Namespaced",
		"names": map[string]any{"kind": consumerKind, "plural": consumersAPI.Resource, "singular": "quotaconsumer", "listKind": consumerKind + "List"},
		"versions": []any{map[string]any{
			"name": consumersAPI.Version, "served": true, "storage": true,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "description": "QuotaConsumer is a namespace, or a set of namespaces, whose limits bursar import took over from another system.",
			}},
		}},
	}
	return u
}

// role lets Bursar follow the kinds of the policies.
func (p *Plan) role(source string) *unstructured.Unstructured {
	u := objectOf("rbac.authorization.k8s.io/v1", "ClusterRole", "", "bursar-imported-"+source, map[string]string{
		LabelImportedFrom: source, quotav1alpha1.GroupName + "/aggregate-to-operator": "true",
	})
	rule := func(group string, resources ...any) any {
		return map[string]any{"apiGroups": []any{group}, "resources": resources, "verbs": []any{"get", "list", "watch"}}
	}
	rules := []any{rule(consumerGroup, consumersAPI.Resource)}
	for _, resource := range p.followed {
		rules = append(rules, rule(resource.Group, resource.Resource))
	}
	u.Object["rules"] = rules
	return u
}

// write writes a plan, and deletes objects of an earlier import that this one lacks. Policies keep their mode.
func (i *importer) write(ctx context.Context, plan *Plan) error {
	kept, err := i.modesOf(ctx)
	if err != nil {
		return err
	}
	for _, p := range plan.Policies {
		if mode := kept[p.Name]; mode != "" {
			p.Spec.EnforcementMode = quotav1alpha1.EnforcementMode(mode)
		}
	}
	all, err := plan.placed(i.From)
	if err != nil {
		return err
	}
	written := map[string]bool{}
	for _, each := range all {
		if each.resource == consumersAPI && !written[consumersAPI.String()] {
			if err := quotakinds.AwaitConsumers(ctx, i.api); err != nil {
				return err
			}
			written[consumersAPI.String()] = true
		}
		if each.resource == definitions {
			if err := i.awaitDeletion(ctx, each.resource, each.object.GetName()); err != nil {
				return err
			}
		}
		if err := i.apply(ctx, each); err != nil {
			return err
		}
		written[keyOf(each.resource, each.object)] = true
	}
	return i.prune(ctx, plan, written)
}

func keyOf(resource schema.GroupVersionResource, object metav1.Object) string {
	return resource.String() + " " + object.GetNamespace() + "/" + object.GetName()
}

func (i *importer) apply(ctx context.Context, each placed) error {
	content, err := json.Marshal(each.object.Object)
	if err != nil {
		return fmt.Errorf("encode %s %s: %w", each.object.GetKind(), each.object.GetName(), err)
	}
	_, err = i.api.Resource(each.resource).Namespace(each.object.GetNamespace()).Patch(ctx, each.object.GetName(), types.ApplyPatchType, content,
		metav1.PatchOptions{FieldManager: fieldManager, Force: new(true)})
	if err != nil {
		return fmt.Errorf("write %s: %w", objectRef(each.object.GetKind(), each.object.GetNamespace(), each.object.GetName()), err)
	}
	return nil
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

// imported lists the objects of a resource written by imports from the former system.
func (i *importer) imported(ctx context.Context, resource schema.GroupVersionResource) ([]unstructured.Unstructured, error) {
	var all []unstructured.Unstructured
	options := metav1.ListOptions{Limit: 500, LabelSelector: LabelImportedFrom + "=" + i.From}
	for {
		page, err := i.api.Resource(resource).List(ctx, options)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", resource.GroupResource(), err)
		}
		all = append(all, page.Items...)
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return all, nil
		}
	}
}

// modesOf returns the modes of the policies of an earlier import.
func (i *importer) modesOf(ctx context.Context) (map[string]string, error) {
	policies, err := i.imported(ctx, claimPolicies)
	found := map[string]string{}
	for j := range policies {
		mode, _, _ := unstructured.NestedString(policies[j].Object, "spec", "enforcementMode") //nolint:errcheck // the schema has a text there
		found[policies[j].GetName()] = mode
	}
	return found, err
}

// prune deletes the objects an earlier import wrote for limits that no longer exist. Policies go first, because they
// use the rest.
func (i *importer) prune(ctx context.Context, plan *Plan, written map[string]bool) error {
	for _, resource := range []schema.GroupVersionResource{claimPolicies, grants, registrations, consumersAPI} {
		all, err := i.imported(ctx, resource)
		if err != nil {
			return err
		}
		for j := range all {
			if !written[keyOf(resource, &all[j])] && !isInPlace(&all[j]) {
				if err := i.remove(ctx, resource, &all[j]); err != nil {
					return err
				}
			}
		}
	}
	return i.unlabel(ctx, func(namespace string) bool { return plan.Profiles[namespace] == "" })
}

func (i *importer) remove(ctx context.Context, resource schema.GroupVersionResource, object metav1.Object) error {
	err := i.api.Resource(resource).Namespace(object.GetNamespace()).Delete(ctx, object.GetName(), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s of %s: %w", object.GetName(), resource.GroupResource(), err)
	}
	return nil
}

// unlabel removes the label of this import from namespaces.
func (i *importer) unlabel(ctx context.Context, isLeft func(namespace string) bool) error {
	list, err := i.api.Resource(namespacesAPI).List(ctx, metav1.ListOptions{LabelSelector: LabelImportedLimits})
	if err != nil {
		return fmt.Errorf("list the labelled namespaces: %w", err)
	}
	patch := []byte(`{"metadata":{"labels":{"` + LabelImportedLimits + `":null}}}`)
	for j := range list.Items {
		namespace := &list.Items[j]
		isOurs := strings.HasPrefix(namespace.GetLabels()[LabelImportedLimits], i.From+"-")
		if !isOurs || !isLeft(namespace.GetName()) {
			continue
		}
		_, err := i.api.Resource(namespacesAPI).Patch(ctx, namespace.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove the label of namespace %s: %w", namespace.GetName(), err)
		}
	}
	return nil
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
	for j := range policies {
		if o.DryRun {
			continue
		}
		_, err := i.api.Resource(claimPolicies).Patch(ctx, policies[j].GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
		if err != nil {
			return 0, fmt.Errorf("set the mode of ClaimCreationPolicy %s: %w", policies[j].GetName(), err)
		}
	}
	return len(policies), nil
}
