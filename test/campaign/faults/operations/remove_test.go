package operations

import (
	"strings"
	"testing"
)

// leftovers are the finalizers of Bursar anywhere, and the objects being deleted.
const leftovers = `
kubectl get "$(kubectl api-resources --verbs=list -o name | paste -sd,)" --all-namespaces --ignore-not-found \
  -o jsonpath='{range .items[*]}{.kind} {.metadata.name} {.metadata.deletionTimestamp} {.metadata.finalizers}{"\n"}{end}' |
  grep -E 'quota\.miloapis\.com/|Z \[' || true`

// unharmed creates objects protected by Bursar before, more than it would allow.
const unharmed = `
cd examples/quickstart
kubectl create -f project-mobile.yaml -f project-data.yaml
kubectl create configmap one -n acme-web
kubectl create namespace another
kubectl delete project web mobile data
kubectl delete namespace acme-web another --timeout=4m`

func TestRemove(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.installPlatform()
	c.refused("kubectl delete namespace bursar-system", "namespace bursar-system holds Bursar's ledgers and may not be deleted")
	if held := c.must(leftovers); !strings.Contains(held, "ResourceClaim project-web") || !strings.Contains(held, "GrantCreationPolicy more") {
		t.Errorf("nothing is held that could be left behind: %s", held)
	}
	c.must(documented(t, "tasks/install.md", "remove"))
	c.checkRemoved()
}

// TestRemoveLate removes an operator that can no longer help.
func TestRemoveLate(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.installPlatform()
	c.die()
	c.refused("kubectl create -f examples/quickstart/project-data.yaml", "failed calling webhook")
	// Claims and policies for grants now wait for Bursar upon a deletion.
	c.must("kubectl delete grantcreationpolicy more --wait=false --timeout=5s || true")
	c.must(documented(t, "tasks/install.md", "remove-late"))
	c.must("kubectl get resourceclaims.quota.miloapis.com project-web -n bursar-system")
	c.must(unharmed)
	c.must("bursar uninstall --purge")
	c.checkNothingLeft()
}

func (c *cluster) checkRemoved() {
	c.Helper()
	c.must(unharmed)
	c.checkNothingLeft()
}

func (c *cluster) checkNothingLeft() {
	c.Helper()
	if left := c.must(leftovers); left != "" {
		c.Errorf("something is left behind:\n%s", left)
	}
	if left := c.must("kubectl get customresourcedefinitions,validatingwebhookconfigurations,mutatingwebhookconfigurations,namespaces -o name"); strings.Contains(left, "bursar") || strings.Contains(left, "miloapis") {
		c.Errorf("something is left behind:\n%s", left)
	}
}
