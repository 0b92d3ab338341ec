package operator

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/bursar/bursar/deploy/crds"
	"github.com/bursar/bursar/internal/standalone/apiserver/apiservertest"
)

// Kinds are waited for in each group and version that serves them, and in no other.
func TestWaitServed(t *testing.T) {
	definitions := []*apiextensionsv1.CustomResourceDefinition{
		definition("quota.miloapis.com", "grants", apiextensionsv1.CustomResourceDefinitionVersion{Name: "v1", Served: true}),
		definition("openmcp.cloud", "increases", apiextensionsv1.CustomResourceDefinitionVersion{Name: "v1", Served: false},
			apiextensionsv1.CustomResourceDefinitionVersion{Name: "v2", Served: true}, apiextensionsv1.CustomResourceDefinitionVersion{Name: "v3", Served: true}),
	}
	grants, v2, v3 := resources("quota.miloapis.com/v1", "grants"), resources("openmcp.cloud/v2", "increases"), resources("openmcp.cloud/v3", "increases")
	for name, tt := range map[string]struct {
		reason string
		served []*metav1.APIResourceList
		want   bool
	}{
		"all":                      {"nothing is missing", []*metav1.APIResourceList{grants, v2, v3}, true},
		"without a group":          {"that is not served yet", []*metav1.APIResourceList{grants}, false},
		"without a version":        {"clients may use either", []*metav1.APIResourceList{grants, v2}, false},
		"without a kind":           {"others of its version are served already", []*metav1.APIResourceList{grants, v2, resources("openmcp.cloud/v3", "others")}, false},
		"under the other's group":  {"that is another kind", []*metav1.APIResourceList{resources("quota.miloapis.com/v1", "grants", "increases")}, false},
		"beside those of somebody": {"they do not matter", []*metav1.APIResourceList{resources("quota.miloapis.com/v1", "grants", "others"), v2, v3}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				served := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: tt.served}}
				if err := waitServed(ctx, served, definitions); (err == nil) != tt.want {
					t.Errorf("%s: the wait ended with %v", tt.reason, err)
				}
			})
		})
	}
}

func definition(group, plural string, versions ...apiextensionsv1.CustomResourceDefinitionVersion) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: group, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural}, Versions: versions,
	}}
}

func resources(version string, names ...string) *metav1.APIResourceList {
	list := &metav1.APIResourceList{GroupVersion: version}
	for _, name := range names {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
	}
	return list
}

// An older Bursar that is started beside a newer one, or in place of it, takes no field from its kinds.
func TestLaterCRDsStay(t *testing.T) {
	plane := apiservertest.Start(t)
	client, err := apiextensionsclient.NewForConfig(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	api := client.ApiextensionsV1().CustomResourceDefinitions()
	const name = "resourcegrants.quota.miloapis.com"
	install := func() *apiextensionsv1.CustomResourceDefinition {
		t.Helper()
		if err := installCRDs(t.Context(), client, client.Discovery(), logr.Discard()); err != nil {
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
			if stored.Annotations[crds.VersionAnnotation] != "1" {
				t.Errorf("an installed CRD has the annotations %v, want its version", stored.Annotations)
			}
			specOf(stored)["later"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
			stored.Annotations[crds.VersionAnnotation] = tt.version
			if _, err := api.Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			stored = install()
			if _, stays := specOf(stored)["later"]; stays != tt.stays {
				t.Errorf("%s: the field stays: %t, want %t", tt.reason, stays, tt.stays)
			}
			// So that the next one begins with this program's.
			stored.Annotations[crds.VersionAnnotation] = "0"
			if _, err := api.Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		})
	}
}
