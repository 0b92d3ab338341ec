package policytest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/deploy/crds"
	"github.com/bursar/bursar/internal/kube/crdschema"
)

// files are the contents of the files, by purpose.
type files struct {
	policies      []*quotav1alpha1.ClaimCreationPolicy
	registrations []*quotav1alpha1.ResourceRegistration
	grants        []*quotav1alpha1.ResourceGrant
	// namespaces are also objects.
	namespaces map[string]*unstructured.Unstructured
	objects    []*unstructured.Unstructured

	schemas map[schema.GroupVersionKind]*crdschema.Schema
	// rejected are the objects of Bursar's group that the API server would reject.
	rejected []Rejected
}

// read reads files. It omits objects of other kinds of Bursar's groups.
func read(ctx context.Context, names resource.FilenameOptions) (*files, error) {
	infos, err := resource.NewLocalBuilder().Unstructured().FilenameParam(false, &names).Flatten().Do().Infos()
	if err != nil {
		return nil, err
	}
	f := &files{namespaces: map[string]*unstructured.Unstructured{}}
	if f.schemas, err = schemas(); err != nil {
		return nil, err
	}
	for _, info := range infos {
		object, isObject := info.Object.(*unstructured.Unstructured)
		if !isObject {
			return nil, fmt.Errorf("%s: %T is not an object", info.Source, info.Object)
		}
		if err := f.add(ctx, object); err != nil {
			f.reject(object.GetKind(), object.GetName(), err)
		}
	}
	if len(f.policies)+len(f.rejected) == 0 {
		return nil, errors.New("there is no ClaimCreationPolicy in the files")
	}
	return f, nil
}

// schemas returns the schemas of Bursar's kinds.
func schemas() (map[schema.GroupVersionKind]*crdschema.Schema, error) {
	definitions, err := crds.All()
	if err != nil {
		return nil, err
	}
	byKind := map[schema.GroupVersionKind]*crdschema.Schema{}
	for _, d := range definitions {
		for _, version := range d.Spec.Versions {
			kind := schema.GroupVersionKind{Group: d.Spec.Group, Version: version.Name, Kind: d.Spec.Names.Kind}
			if byKind[kind], err = crdschema.New(d, version.Name); err != nil {
				return nil, err
			}
		}
	}
	return byKind, nil
}

func (f *files) reject(kind, name string, why error) {
	f.rejected = append(f.rejected, Rejected{Kind: kind, Name: name, Reason: why.Error()})
}

// add adds an object. An error means that the API server would reject it.
func (f *files) add(ctx context.Context, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	switch kind.GroupKind() {
	case schema.GroupKind{Group: quotav1alpha1.GroupName, Kind: "ClaimCreationPolicy"}:
		return decode(ctx, f.schemas[kind], object, &f.policies)
	case schema.GroupKind{Group: quotav1alpha1.GroupName, Kind: "ResourceRegistration"}:
		return decode(ctx, f.schemas[kind], object, &f.registrations)
	case schema.GroupKind{Group: quotav1alpha1.GroupName, Kind: "ResourceGrant"}:
		return decode(ctx, f.schemas[kind], object, &f.grants)
	case schema.GroupKind{Kind: "Namespace"}:
		f.namespaces[object.GetName()] = object
	}
	if kind.Group != quotav1alpha1.GroupName && kind.Group != openmcpv1alpha1.GroupName {
		f.objects = append(f.objects, object)
	}
	return nil
}

// decode appends an object of Bursar's group, with its defaults.
func decode[T any](ctx context.Context, known *crdschema.Schema, object *unstructured.Unstructured, all *[]*T) error {
	if known == nil {
		return fmt.Errorf("version %s is not known: use %s", object.GetAPIVersion(), quotav1alpha1.GroupVersion)
	}
	// This rejects unknown fields, as kubectl does.
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, new(T), true); err != nil {
		return err
	}
	if errs := known.Admit(ctx, object.Object, nil); len(errs) > 0 {
		return errs.ToAggregate()
	}
	decoded := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, decoded); err != nil {
		return err
	}
	*all = append(*all, decoded)
	return nil
}

// completeRegistrations makes the registrations active, and adds those missing from the files. For each such resource
// type of a policy, it adds one that allows the requests of the policies.
func (f *files) completeRegistrations() {
	registered := map[string]*quotav1alpha1.ResourceRegistration{}
	for _, r := range f.registrations {
		registered[r.Spec.ResourceType] = nil
	}
	for _, p := range f.policies {
		trigger, template := p.Spec.Trigger.Resource, &p.Spec.Target.ResourceClaimTemplate.Spec
		claiming := quotav1alpha1.ClaimingResource{APIGroup: schema.FromAPIVersionAndKind(trigger.APIVersion, trigger.Kind).Group, Kind: trigger.Kind}
		for _, resourceType := range template.ResourceTypes() {
			added, isKnown := registered[resourceType]
			if !isKnown {
				added = &quotav1alpha1.ResourceRegistration{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("added-%d", len(registered))},
					Spec: quotav1alpha1.ResourceRegistrationSpec{
						ResourceType: resourceType, ConsumerTypeRef: quotav1alpha1.ConsumerTypeRef{APIGroup: template.ConsumerRef.APIGroup, Kind: template.ConsumerRef.Kind},
					},
				}
				registered[resourceType] = added
				f.registrations = append(f.registrations, added)
			}
			if added != nil {
				added.Spec.ClaimingResources = append(added.Spec.ClaimingResources, claiming)
				added.Spec.Dimensions = append(added.Spec.Dimensions, dimensionsOf(template, resourceType)...)
			}
		}
	}
	for _, r := range f.registrations {
		apimeta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue})
	}
}

// dimensionsOf returns the dimensions of the requests for a resource type.
func dimensionsOf(template *quotav1alpha1.ResourceClaimTemplateSpec, resourceType string) []string {
	var dimensions []string
	for _, request := range template.Requests {
		if request.ResourceType == resourceType {
			dimensions = slices.AppendSeq(dimensions, maps.Keys(request.Dimensions))
		}
	}
	return dimensions
}
