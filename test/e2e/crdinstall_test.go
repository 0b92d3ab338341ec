package e2e

import (
	"testing"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/kube/crdinstall"
)

// An older Bursar, starting beside a newer one or instead of it, takes no field from its kinds.
func TestLaterCRDsStay(t *testing.T) {
	t.Parallel()
	client, err := apiextensionsclient.NewForConfig(barePlane(t).plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	api := client.ApiextensionsV1().CustomResourceDefinitions()
	const name = "resourcegrants.quota.miloapis.com"
	install := func() *apiextensionsv1.CustomResourceDefinition {
		t.Helper()
		if err := crdinstall.Install(t.Context(), client, client.Discovery(), logr.Discard()); err != nil {
			t.Fatal(err)
		}
		stored, err := api.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return stored
	}
	specOf := func(definition *apiextensionsv1.CustomResourceDefinition) map[string]apiextensionsv1.JSONSchemaProps {
		return definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
	}
	for name, tt := range map[string]struct {
		reason  string
		version string
		stays   bool
	}{
		"a field more":                  {"only a later version adds fields", "1", true},
		"a field more, without version": {"somebody else has applied it", "", true},
		"a later version":               {"its number says so", "2", true},
		"an earlier version":            {"this one has taken the field away", "0", false},
	} {
		t.Run(name, func(t *testing.T) {
			stored := install()
			if stored.Annotations[quotav1alpha1.AnnotationCRDVersion] != "1" {
				t.Errorf("an installed CRD has the annotations %v, want its version", stored.Annotations)
			}
			specOf(stored)["later"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
			stored.Annotations[quotav1alpha1.AnnotationCRDVersion] = tt.version
			if _, err := api.Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			stored = install()
			if _, stays := specOf(stored)["later"]; stays != tt.stays {
				t.Errorf("%s: the field stays: %t, want %t", tt.reason, stays, tt.stays)
			}
			// The next case begins with this program's definition.
			stored.Annotations[quotav1alpha1.AnnotationCRDVersion] = "0"
			if _, err := api.Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		})
	}
}
