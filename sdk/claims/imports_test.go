package claims

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The package imports the types of the API and the client of controller-runtime, with their dependencies, and nothing
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
	allowed := []string{module + "api/quota/v1alpha1", "k8s.io/apimachinery/", "sigs.k8s.io/controller-runtime/pkg/client"}
	for _, name := range list("{{.Imports}}") {
		isStandard := !strings.Contains(strings.Split(name, "/")[0], ".")
		if !isStandard && !slices.ContainsFunc(allowed, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			t.Errorf("it imports %s", name)
		}
	}
}
