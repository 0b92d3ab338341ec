package increases

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	"github.com/bursar/bursar/test/process"
)

const root = "../.."

var (
	block   = regexp.MustCompile("(?s)```(sh|text)\n(.*?)```")
	age     = regexp.MustCompile(`\b[0-9]+s\b`)
	spacing = regexp.MustCompile(` +`)
)

// The README of the example says what to type, and what comes of it. Namespaces of others have no part in it.
func TestGuide(t *testing.T) {
	w := &world{T: t, name: "guide"}
	readme, err := os.ReadFile(filepath.Join(root, "examples/quota-increases/README.md"))
	w.must(err)
	for _, name := range []string{"team-a", "team-b", "team-c"} {
		w.cleanUp(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		t.Cleanup(func() {
			if err := admin.DeleteAllOf(context.Background(), &openmcpv1alpha1.QuotaIncrease{}, client.InNamespace(name)); err != nil {
				t.Error(err)
			}
		})
	}
	w.cleanUp(&openmcpv1alpha1.QuotaServiceConfig{ObjectMeta: metav1.ObjectMeta{Name: "platform"}})
	var last []string
	outputs := 0
	for _, part := range block.FindAllStringSubmatch(string(readme), -1) {
		if part[1] == "text" {
			outputs++
			w.eventually(func() error {
				if diff := cmp.Diff(normal(part[2]), normal(w.kubectl(last...))); diff != "" {
					return fmt.Errorf("%v prints (-README +here):\n%s", last, diff)
				}
				return nil
			})
			continue
		}
		for line := range strings.Lines(part[2]) {
			last = strings.Fields(strings.TrimPrefix(line, "bin/bursar kubectl "))
			w.kubectl(last...)
		}
	}
	if outputs != 3 {
		t.Errorf("%d outputs are told, want 3", outputs)
	}
}

// normal is an output without the ages in it and the width of columns.
func normal(output string) []string {
	var lines []string
	for line := range strings.Lines(output) {
		lines = append(lines, strings.TrimSpace(spacing.ReplaceAllString(age.ReplaceAllString(line, "0s"), " ")))
	}
	return lines
}

// kubectl runs kubectl in the root of the repository.
func (w *world) kubectl(arguments ...string) string {
	w.Helper()
	binary, err := process.Build()
	w.must(err)
	command := exec.CommandContext(w.Context(), binary, append([]string{"kubectl"}, arguments...)...)
	command.Dir = root
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	output, err := command.CombinedOutput()
	if err != nil {
		w.Fatalf("kubectl %v: %v\n%s", arguments, err, output)
	}
	return string(output)
}
