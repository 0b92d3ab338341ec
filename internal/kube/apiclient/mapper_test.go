package apiclient

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"

	"k8s.io/apimachinery/pkg/runtime/schema"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// The mapper knows Bursar's kinds even before an API server serves them, and no others.
func TestMapperKnowsItsOwnKinds(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	mapper, err := NewMapper(&rest.Config{Host: server.URL}, server.Client())
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[schema.GroupVersionKind]struct {
		resource string
		scope    meta.RESTScope
	}{
		quotav1alpha1.GroupVersion.WithKind("ResourceRegistration"): {"resourceregistrations", meta.RESTScopeRoot},
		quotav1alpha1.GroupVersion.WithKind("ResourceClaim"):        {"resourceclaims", meta.RESTScopeNamespace},
		openmcpv1alpha1.GroupVersion.WithKind("QuotaIncrease"):      {"quotaincreases", meta.RESTScopeNamespace},
	} {
		got, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil || got.Resource != kind.GroupVersion().WithResource(want.resource) || got.Scope.Name() != want.scope.Name() {
			t.Errorf("%s: got %+v, %v, want %s in scope %s", kind.Kind, got, err, want.resource, want.scope.Name())
		}
	}
	if got, err := mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "v1"); err == nil {
		t.Errorf("a kind that nobody serves is %+v", got)
	}
}
