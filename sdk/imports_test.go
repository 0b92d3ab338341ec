// Package sdk tests the dependencies that the packages for users bring into a build.
package sdk

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestImports proves that the packages import the types of the API and their intended libraries, and nothing else.
func TestImports(t *testing.T) {
	const module = "github.com/bursar/bursar/"
	api := module + "api/quota/v1alpha1"
	for folder, allowed := range map[string][]string{
		"./claims":   {"k8s.io/apimachinery/", "sigs.k8s.io/controller-runtime/pkg/client"},
		"./features": {"k8s.io/apimachinery/", "k8s.io/client-go/", "github.com/open-feature/go-sdk/openfeature"},
	} {
		t.Run(folder, func(t *testing.T) {
			list := func(format string) []string {
				output, err := exec.CommandContext(t.Context(), "go", "list", "-f", format, folder).Output()
				if err != nil {
					t.Fatal(err)
				}
				return strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(string(output)))
			}
			own := slices.DeleteFunc(list("{{.Deps}}"), func(name string) bool { return !strings.HasPrefix(name, module) })
			if want := []string{api}; !slices.Equal(own, want) {
				t.Errorf("it needs %q of Bursar, want %q", own, want)
			}
			for _, name := range list("{{.Imports}}") {
				isStandard := !strings.Contains(strings.Split(name, "/")[0], ".")
				if !isStandard && name != api && !slices.ContainsFunc(allowed, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
					t.Errorf("it imports %s", name)
				}
			}
		})
	}
}
