// Package crdinstall keeps the CRDs on an API server up to date. Like all of kube it knows no quota, and any internal
// package may import it.
package crdinstall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	apiextensionshelpers "k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/retry"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/deploy/crds"
)

// establishPoll is the time between two checks whether the API server serves a new kind.
const establishPoll = 10 * time.Millisecond

// servedPoll is the time between two checks of an API server's discovery.
const servedPoll = 50 * time.Millisecond

// Install creates or updates Bursar's kinds, except for the given resources, and waits until this API server serves
// them.
func Install(
	ctx context.Context, client apiextensionsclient.Interface, served discovery.ServerResourcesInterface, log logr.Logger, except ...schema.GroupResource,
) error {
	definitions, err := crds.All()
	if err != nil {
		return fmt.Errorf("read the CRDs: %w", err)
	}
	definitions = slices.DeleteFunc(definitions, func(d *apiextensionsv1.CustomResourceDefinition) bool {
		return slices.Contains(except, schema.GroupResource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural})
	})
	for _, definition := range definitions {
		// Another replica may do the same.
		isOvertaken := func(err error) bool { return apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) }
		err := retry.OnError(retry.DefaultBackoff, isOvertaken, func() error { return applyCRD(ctx, client, definition, log) })
		if err != nil {
			return fmt.Errorf("install CRD %s: %w", definition.Name, err)
		}
	}
	for _, definition := range definitions {
		if err := waitEstablished(ctx, client, definition.Name); err != nil {
			return fmt.Errorf("wait for CRD %s to be served: %w", definition.Name, err)
		}
	}
	return waitServed(ctx, served, definitions)
}

// waitServed waits until this API server serves established kinds. Of several API servers, each does so in its own
// time.
func waitServed(ctx context.Context, served discovery.ServerResourcesInterface, definitions []*apiextensionsv1.CustomResourceDefinition) error {
	for version, desired := range resourcesOf(definitions) {
		var problem error
		err := wait.PollUntilContextCancel(ctx, servedPoll, true, func(context.Context) (bool, error) {
			var list *metav1.APIResourceList
			if list, problem = served.ServerResourcesForGroupVersion(version.String()); problem != nil {
				return false, nil
			}
			unserved := desired.Clone()
			for _, resource := range list.APIResources {
				unserved.Delete(resource.Name)
			}
			return unserved.Len() == 0, nil
		})
		if err != nil {
			return errors.Join(fmt.Errorf("wait for the API server to serve %s: %w", version, err), problem)
		}
	}
	return nil
}

// resourcesOf returns the resources of CRDs by served version.
func resourcesOf(definitions []*apiextensionsv1.CustomResourceDefinition) map[schema.GroupVersion]sets.Set[string] {
	resources := map[schema.GroupVersion]sets.Set[string]{}
	for _, definition := range definitions {
		for _, version := range definition.Spec.Versions {
			if !version.Served {
				continue
			}
			in := schema.GroupVersion{Group: definition.Spec.Group, Version: version.Name}
			if resources[in] == nil {
				resources[in] = sets.New[string]()
			}
			resources[in].Insert(definition.Spec.Names.Plural)
		}
	}
	return resources
}

// applyCRD creates or updates a CRD. It keeps a CRD of a later version of Bursar unchanged: with the older schema, the
// API server would drop the newer fields from every written object.
func applyCRD(ctx context.Context, client apiextensionsclient.Interface, desired *apiextensionsv1.CustomResourceDefinition, log logr.Logger) error {
	desired = desired.DeepCopy()
	metav1.SetMetaDataAnnotation(&desired.ObjectMeta, quotav1alpha1.AnnotationCRDVersion, strconv.Itoa(crds.Version))
	api := client.ApiextensionsV1().CustomResourceDefinitions()
	stored, err := api.Get(ctx, desired.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = api.Create(ctx, desired, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	if because := later(stored, desired); because != "" {
		log.Info("a CRD is of a later version of Bursar, and stays unchanged", "crd", desired.Name, "because", because)
		return nil
	}
	updated := stored.DeepCopy()
	updated.Spec = desired.Spec
	metav1.SetMetaDataAnnotation(&updated.ObjectMeta, quotav1alpha1.AnnotationCRDVersion, desired.Annotations[quotav1alpha1.AnnotationCRDVersion])
	// Defaults of the API server are not a difference.
	updated.Spec.Conversion = stored.Spec.Conversion
	if equality.Semantic.DeepEqual(stored.Spec, updated.Spec) && equality.Semantic.DeepEqual(stored.Annotations, updated.Annotations) {
		return nil
	}
	_, err = api.Update(ctx, updated, metav1.UpdateOptions{})
	return err
}

// later returns why a stored CRD is from a later version of Bursar than another, or "" if it is not. Between CRDs of
// the same version, or if the stored one names none, the fields decide: Bursar removes no field without a new version.
func later(stored, than *apiextensionsv1.CustomResourceDefinition) string {
	version, err := strconv.Atoi(stored.Annotations[quotav1alpha1.AnnotationCRDVersion])
	switch {
	case err == nil && version > crds.Version:
		return fmt.Sprintf("it is of version %d, and this program has version %d", version, crds.Version)
	case err == nil && version < crds.Version:
		return ""
	}
	known := fieldsOf(than)
	for field := range fieldsOf(stored) {
		if !known.Has(field) {
			return "it has " + field + ", which this program does not know"
		}
	}
	return ""
}

// fieldsOf returns the paths of all fields of a CRD, each prefixed with its version.
func fieldsOf(definition *apiextensionsv1.CustomResourceDefinition) sets.Set[string] {
	fields := sets.New[string]()
	for _, version := range definition.Spec.Versions {
		if version.Schema != nil {
			addFields(fields, version.Name, version.Schema.OpenAPIV3Schema)
		}
	}
	return fields
}

// addFields adds the paths of the fields of a schema at a path.
func addFields(fields sets.Set[string], path string, of *apiextensionsv1.JSONSchemaProps) {
	if of == nil {
		return
	}
	fields.Insert(path)
	for name, property := range of.Properties {
		addFields(fields, path+"."+name, &property)
	}
	if of.Items != nil {
		addFields(fields, path+"[]", of.Items.Schema)
	}
	if of.AdditionalProperties != nil {
		addFields(fields, path+"{}", of.AdditionalProperties.Schema)
	}
}

func waitEstablished(ctx context.Context, client apiextensionsclient.Interface, name string) error {
	return wait.PollUntilContextCancel(ctx, establishPoll, true, func(ctx context.Context) (bool, error) {
		definition, err := client.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return apiextensionshelpers.IsCRDConditionTrue(definition, apiextensionsv1.Established), nil
	})
}
