package features

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The package imports the types of the API, the cache of controller-runtime, client-go and OpenFeature, and nothing
// else.
func TestImports(t *testing.T) {
	const module = "github.com/bursar/bursar/"
	list := func(format string) []string {
		output, err := exec.CommandContext(t.Context(), "go", "list", "-f", format, ".").Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(string(output)))
	}
	own := slices.DeleteFunc(list("{{.Deps}}"), func(name string) bool { return !strings.HasPrefix(name, module) })
	if want := []string{module + "api/quota/v1alpha1"}; !slices.Equal(own, want) {
		t.Errorf("it needs %q of Bursar, want %q", own, want)
	}
	allowed := []string{module + "api/quota/v1alpha1", "k8s.io/apimachinery/", "k8s.io/client-go/", "sigs.k8s.io/controller-runtime/pkg/cache", "github.com/open-feature/go-sdk/openfeature"}
	for _, name := range list("{{.Imports}}") {
		isStandard := !strings.Contains(strings.Split(name, "/")[0], ".")
		if !isStandard && !slices.ContainsFunc(allowed, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			t.Errorf("it imports %s", name)
		}
	}
}
