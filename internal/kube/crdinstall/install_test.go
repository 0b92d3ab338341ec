package crdinstall

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"
)

// The wait is for each kind in each group and version that serves it, and in no other.
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
