package service

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	computev1alpha1 "github.com/bursar/bursar/examples/compute/api/v1alpha1"
)

// An API server without a required kind causes an error with the next step.
func TestKinds(t *testing.T) {
	mapper := apimeta.NewDefaultRESTMapper([]schema.GroupVersion{quotav1alpha1.GroupVersion, computev1alpha1.GroupVersion})
	serve := func(version schema.GroupVersion, kind string) {
		mapper.Add(version.WithKind(kind), apimeta.RESTScopeNamespace)
	}
	want := func(text string) {
		t.Helper()
		if err := checkKinds(mapper); err == nil && text != "" || err != nil && err.Error() != text {
			t.Errorf("got %v, want %q", err, text)
		}
	}
	want("the API server does not serve ResourceClaim.quota.miloapis.com: install Bursar first")
	serve(quotav1alpha1.GroupVersion, "ResourceClaim")
	want("the API server does not serve Instance.compute.datumapis.com: apply examples/compute/config/crds first")
	serve(computev1alpha1.GroupVersion, "Instance")
	serve(computev1alpha1.GroupVersion, "WorkloadDeployment")
	want("")
}

// The build of the service is like anybody's: of Bursar it imports only the packages for others.
func TestImports(t *testing.T) {
	const module = "github.com/bursar/bursar/"
	output, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "..").Output()
	if err != nil {
		t.Fatal(err)
	}
	own := slices.DeleteFunc(strings.Fields(string(output)), func(name string) bool {
		return !strings.HasPrefix(name, module) || strings.HasPrefix(name, module+"examples/compute")
	})
	if want := []string{module + "api/quota/v1alpha1", module + "sdk/claims"}; !slices.Equal(own, want) {
		t.Errorf("it needs %q of Bursar, want %q", own, want)
	}
}
