package e2e

import (
	"testing"

	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/test/guide"
)

// Guides have commands and their output.

func TestGuideOfAllocations(t *testing.T) {
	t.Parallel()
	if texts := guide.Follow(t, "examples/allocations/README.md", started.Kubeconfig); texts != 3 {
		t.Errorf("%d outputs are told, want 3", texts)
	}
}

func TestGuideOfCompute(t *testing.T) {
	t.Parallel()
	if texts := guide.Follow(t, "examples/compute/README.md", started.Kubeconfig); texts != 10 {
		t.Errorf("%d outputs are told, want 10", texts)
	}
}

// TestGuideOfIncreases lists the QuotaIncreases of all namespaces, so it has a server for itself.
func TestGuideOfIncreases(t *testing.T) {
	t.Parallel()
	if texts := guide.Follow(t, "examples/quota-increases/README.md", start(t, standalone.Options{}).Kubeconfig); texts != 3 {
		t.Errorf("%d outputs are told, want 3", texts)
	}
}

// TestGuideOfPlans needs the kinds of the quickstart, so it has a server for itself.
func TestGuideOfPlans(t *testing.T) {
	t.Parallel()
	if texts := guide.Follow(t, "docs/tasks/plan.md", start(t, standalone.Options{}).Kubeconfig); texts != 4 {
		t.Errorf("%d outputs are told, want 4", texts)
	}
}

// TestGuideOfRequests needs the kinds of the quickstart, so it has a server for itself.
func TestGuideOfRequests(t *testing.T) {
	t.Parallel()
	if texts := guide.Follow(t, "docs/tasks/requests.md", start(t, standalone.Options{}).Kubeconfig); texts != 3 {
		t.Errorf("%d outputs are told, want 3", texts)
	}
}

// TestGuideOfConsole shows the quota of each Organization in a namespace of its own, so it has a server for itself.
func TestGuideOfConsole(t *testing.T) {
	t.Parallel()
	perOrganization := config.ConsumerNamespace{APIGroup: "cloud.example.com", Kind: "Organization", Namespace: "org-{{name}}"}
	server := start(t, standalone.Options{Quota: config.Quota{ConsumerNamespaces: []config.ConsumerNamespace{perOrganization}}})
	if texts := guide.Follow(t, "docs/tasks/console.md", server.Kubeconfig); texts != 0 {
		t.Errorf("%d outputs are told, want 0", texts)
	}
}

// TestGuideOfJournal needs the kinds of the quickstart and a journal of its own, so it has a server for itself.
func TestGuideOfJournal(t *testing.T) {
	t.Parallel()
	if texts := guide.Follow(t, "docs/tasks/journal.md", start(t, standalone.Options{}).Kubeconfig); texts != 3 {
		t.Errorf("%d outputs are told, want 3", texts)
	}
}

func TestGuideOfGrants(t *testing.T) {
	t.Parallel()
	if texts := guide.Follow(t, "docs/tasks/grants.md", start(t, standalone.Options{}).Kubeconfig); texts != 1 {
		t.Errorf("%d outputs are told, want 1", texts)
	}
}

// TestGuideToCommands needs the kinds of the quickstart, so it has a server for itself.
func TestGuideToCommands(t *testing.T) {
	t.Parallel()
	if texts := guide.Follow(t, "docs/tasks/use-the-commands.md", start(t, standalone.Options{}).Kubeconfig); texts != 4 {
		t.Errorf("the guide shows %d outputs, want 4", texts)
	}
}

// TestGuideOfLimits needs the kinds of the quickstart, so that it has a server for itself.
func TestGuideOfLimits(t *testing.T) {
	t.Parallel()
	if texts := guide.Follow(t, "docs/tasks/raise-a-limit.md", start(t, standalone.Options{}).Kubeconfig); texts != 5 {
		t.Errorf("the guide shows %d outputs, want 5", texts)
	}
}

func TestGuideToOwnKinds(t *testing.T) {
	t.Parallel()
	if texts := guide.Follow(t, "docs/tasks/own-kind.md", start(t, standalone.Options{}).Kubeconfig); texts != 3 {
		t.Errorf("the guide shows %d outputs, want 3", texts)
	}
}

// TestGuideOfRollout needs the kinds of the quickstart, so that it has a server for itself.
func TestGuideOfRollout(t *testing.T) {
	t.Parallel()
	if texts := guide.Follow(t, "docs/tasks/roll-out-with-audit.md", start(t, standalone.Options{}).Kubeconfig); texts != 5 {
		t.Errorf("the guide shows %d outputs, want 5", texts)
	}
}

// TestGuideOfBackups backs up all that a server has, so that it has one for itself.
func TestGuideOfBackups(t *testing.T) {
	t.Parallel()
	if texts := guide.Follow(t, "docs/tasks/back-up.md", start(t, standalone.Options{}).Kubeconfig); texts != 3 {
		t.Errorf("the guide shows %d outputs, want 3", texts)
	}
}

// TestGuideToDenials needs the kinds of the quickstart, so that it has a server for itself.
func TestGuideToDenials(t *testing.T) {
	t.Parallel()
	if texts := guide.Follow(t, "docs/tasks/debug-a-denial.md", start(t, standalone.Options{}).Kubeconfig); texts != 4 {
		t.Errorf("the guide shows %d outputs, want 4", texts)
	}
}
