package restore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/backup"
	"github.com/bursar/bursar/internal/cli/quotakinds"
)

// checkServed makes sure that the server serves the kinds of the consumers in registrations, and those in the triggers
// of policies. Otherwise these would not count, and verify would wait for them in vain. It skips declarations that did
// not count in the backup.
func (r *restorer) checkServed(context.Context) error {
	needed := map[schema.GroupVersionKind]bool{}
	for resource, condition := range counts {
		if resource == grants {
			continue // their registrations have the kinds
		}
		err := r.each(r.kinds[resource], func(object *unstructured.Unstructured) error {
			if isTrue, _ := hasCondition(object, condition); !isTrue || object.GetDeletionTimestamp() != nil {
				return nil
			}
			kind, err := neededKind(resource, object)
			needed[kind] = true
			return err
		})
		if err != nil {
			return err
		}
	}
	if r.archive.Manifest.Has(quotakinds.ConsumerDefinitions.String()) {
		delete(needed, schema.GroupVersionKind{Group: quotakinds.Consumers.Group, Kind: quotakinds.Consumers.Kind}) // the restore defines it
	}
	missing := map[string]bool{}
	for kind := range needed {
		name, err := r.unserved(kind)
		if err != nil {
			return err
		}
		if name != "" {
			missing[name] = true
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("the server does not serve these kinds of the backup's registrations and policies: %s; install their CustomResourceDefinitions first",
		strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
}

// neededKind returns the kind that a registration or a policy depends on. A registration is for every version.
func neededKind(resource string, object *unstructured.Unstructured) (schema.GroupVersionKind, error) {
	if resource == registrations {
		registration := &quotav1alpha1.ResourceRegistration{}
		err := backup.Decode(object, registration)
		consumer := registration.Spec.Consumer()
		return schema.GroupVersionKind{Group: consumer.APIGroup, Kind: consumer.Kind}, err
	}
	var policy struct {
		Spec struct {
			Trigger struct {
				Resource struct {
					APIVersion string `json:"apiVersion"`
					Kind       string `json:"kind"`
				} `json:"resource"`
			} `json:"trigger"`
		} `json:"spec"`
	}
	err := backup.Decode(object, &policy)
	trigger := policy.Spec.Trigger.Resource
	return schema.FromAPIVersionAndKind(trigger.APIVersion, trigger.Kind), err
}

// unserved returns the name of a kind that the server does not serve, with its version if it serves another one.
func (r *restorer) unserved(kind schema.GroupVersionKind) (name string, err error) {
	_, err = r.mapper.RESTMapping(kind.GroupKind())
	if apimeta.IsNoMatchError(err) {
		return kind.GroupKind().String(), nil
	}
	if err == nil && kind.Version != "" {
		if _, err = r.mapper.RESTMapping(kind.GroupKind(), kind.Version); apimeta.IsNoMatchError(err) {
			return fmt.Sprintf("%s (%s)", kind.GroupKind(), kind.Version), nil
		}
	}
	if err != nil {
		return "", fmt.Errorf("find the resource of kind %s: %w", kind.GroupKind(), err)
	}
	return "", nil
}
