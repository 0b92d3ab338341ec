package backtest

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/kube/namespaces"
	"github.com/bursar/bursar/internal/policy"
)

// counter evaluates policies without claims for existing objects. What an object demands now stands for its claim.
type counter struct {
	api        client.Reader
	types      types
	found      *collection
	namespaces map[string]map[string]any
}

// addCounted adds what objects demand by the policies without claims that concern a resource type of a policy.
func (c *collection) addCounted(ctx context.Context, api client.Reader, tested *quotav1alpha1.ClaimCreationPolicy, types types) error {
	counter := &counter{api: api, types: types, found: c, namespaces: map[string]map[string]any{}}
	requested := tested.Spec.Target.ResourceClaimTemplate.Spec.ResourceTypes()
	isRequested := func(resourceType string) bool { return slices.Contains(requested, resourceType) }

	return each(ctx, api, "policies", func(list *quotav1alpha1.ClaimCreationPolicyList) error {
		for i := range list.Items {
			p := &list.Items[i]
			counts := p.Spec.Claims == quotav1alpha1.ClaimsModeNone && p.IsEnabled() && p.DeletionTimestamp == nil
			if !counts || !slices.ContainsFunc(p.Spec.Target.ResourceClaimTemplate.Spec.ResourceTypes(), isRequested) {
				continue
			}
			if err := counter.addObjects(ctx, p); err != nil {
				return err
			}
		}
		return nil
	})
}

// addObjects adds what all objects demand by a policy.
func (c *counter) addObjects(ctx context.Context, p *quotav1alpha1.ClaimCreationPolicy) error {
	compiled, errs := policy.Compile(p)
	if len(errs) > 0 {
		return fmt.Errorf("compile ClaimCreationPolicy %s: %w", p.Name, errs.ToAggregate())
	}
	kind := catalog.TriggerOf(p)
	for next := ""; ; {
		page := &unstructured.UnstructuredList{}
		page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := c.api.List(ctx, page, client.Limit(pageSize), client.Continue(next)); err != nil {
			return fmt.Errorf("list the objects of kind %s in all namespaces: %w", kind.GroupKind(), err)
		}
		if err := c.found.count(len(page.Items)); err != nil {
			return err
		}
		for i := range page.Items {
			if err := c.addObject(ctx, p.Name, compiled, evaluator.ObjectOf(kind, &page.Items[i]), &page.Items[i]); err != nil {
				return err
			}
		}
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
}

// addObject adds what one object demands by a policy. It counts an object to which the tested policy cannot be applied.
func (c *counter) addObject(ctx context.Context, name string, compiled *policy.ClaimPolicy, about evaluator.Object, object *unstructured.Unstructured) error {
	if namespaces.IsExempt(config.DefaultSystemNamespace, about.Kind.GroupKind(), about.Name) {
		return nil
	}
	in := policy.Input{Object: object.Object, WithoutRequest: true, Units: c.types}
	if compiled.UsesNamespace() && about.Name.Namespace != "" {
		var err error
		if in.NamespaceObject, err = c.namespace(ctx, about.Name.Namespace); err != nil {
			return err
		}
	}

	claim, err := demandOf(ctx, compiled, in)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("apply ClaimCreationPolicy %s to %s: %w", name, about, context.Cause(ctx))
	case err != nil && claims.LabelValue(name) == c.found.label:
		c.found.failed++
		return nil
	case err != nil || claim == nil:
		return nil
	}
	claim.ObjectMeta = metav1.ObjectMeta{
		Namespace: about.Name.Namespace, Name: about.Name.Name, UID: about.UID, CreationTimestamp: object.GetCreationTimestamp(),
		Labels: map[string]string{quotav1alpha1.LabelPolicy: claims.LabelValue(name)},
	}
	c.found.add(claim)
	return nil
}

// demandOf returns what an object demands, as a claim, or nil.
func demandOf(ctx context.Context, compiled *policy.ClaimPolicy, in policy.Input) (*quotav1alpha1.ResourceClaim, error) {
	if matches, err := compiled.Matches(ctx, in); err != nil || !matches {
		return nil, err
	}
	return compiled.Render(ctx, in)
}

// namespace returns the metadata of a namespace as policies see it.
func (c *counter) namespace(ctx context.Context, name string) (map[string]any, error) {
	if known := c.namespaces[name]; known != nil {
		return known, nil
	}
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := c.api.Get(ctx, client.ObjectKey{Name: name}, found); err != nil {
		return nil, fmt.Errorf("read namespace %s: %w", name, err)
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(found)
	if err != nil {
		return nil, fmt.Errorf("convert namespace %s: %w", name, err)
	}
	c.namespaces[name] = object
	return object, nil
}
