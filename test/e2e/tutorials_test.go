package e2e

import (
	"testing"

	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/test/guide"
)

// Each tutorial begins with a new server. It shows each Project its quota in the namespace of its name.

func TestTutorialOfFirstHour(t *testing.T) {
	t.Parallel()
	followTutorial(t, "docs/tutorials/first-hour.md", 10)
}

func TestTutorialForTenants(t *testing.T) {
	t.Parallel()
	followTutorial(t, "docs/tutorials/tenant.md", 9)
}

func TestTutorialOfOwningService(t *testing.T) {
	t.Parallel()
	followTutorial(t, "docs/tutorials/owning-service.md", 5)
}

func followTutorial(t *testing.T, page string, texts int) {
	t.Helper()
	perProject := config.ConsumerNamespace{APIGroup: "hosting.example.com", Kind: "Project", Namespace: "{{name}}"}
	server := start(t, standalone.Options{Quota: config.Quota{ConsumerNamespaces: []config.ConsumerNamespace{perProject}}})
	if got := guide.Follow(t, page, server.Kubeconfig); got != texts {
		t.Errorf("%s shows %d outputs, want %d", page, got, texts)
	}
}
