package operations

import (
	"fmt"
	"testing"
)

// uses is a script that succeeds once acme uses so many projects, by its bucket.
func uses(projects int) string {
	return fmt.Sprintf(`test "$(kubectl get allowancebuckets -n bursar-system -o jsonpath='{.items[?(@.spec.resourceType=="resourcemanager.example.com/projects")].status.allocated}')" = %d`, projects)
}

const create = "kubectl create -f examples/quickstart/project-"

// TestStop stops enforcement for a while. Meanwhile the usage exceeds a limit.
func TestStop(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.installPlatform()
	c.must(documented(t, "tasks/install.md", "stop"))
	c.must(create + "mobile.yaml")
	c.must(create + "data.yaml")
	c.start()
	c.finally(uses(3))
	c.refused("sed 's/: data/: fourth/' examples/quickstart/project-data.yaml | kubectl create -f -", "exceeded quota")
}

// TestLedgersLost loses the ledgers, and nothing else.
func TestLedgersLost(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.installPlatform()
	c.must(documented(t, "tasks/install.md", "stop"))
	c.must("kubectl delete consumerledgers --all")
	c.start()
	c.finally(uses(1))
	c.must("kubectl wait --for=condition=Ready --timeout=60s -f examples/quickstart/3-policies.yaml")
	c.must(create + "mobile.yaml")
	c.refused(create+"data.yaml", "used: 2, limited: 2")
}

// TestClaimsLost loses the claims, and nothing else. Until Bursar knows that nobody holds the charges in the ledgers,
// it charges objects twice, never too little.
func TestClaimsLost(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.installPlatform()
	c.must(documented(t, "tasks/install.md", "stop"))
	c.must(documented(t, "tasks/install.md", "remove-late"))
	c.must("kubectl delete resourceclaims --all --all-namespaces")
	c.start()
	c.finally("kubectl get resourceclaim project-web -n bursar-system")
	c.finally(create + "mobile.yaml")
	c.refused(create+"data.yaml", "used: 2, limited: 2")
}

// TestExport moves the declarations to another cluster. Objects have other UIDs there.
func TestExport(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.installPlatform()
	dir := "BACKUP=" + t.TempDir()
	c.must(documented(t, "tasks/back-up.md", "export"), dir)
	other := newCluster(t)
	other.must(`cd examples/quickstart
kubectl apply -f 1-kinds.yaml
kubectl wait --for=condition=Established --timeout=60s -f 1-kinds.yaml
kubectl create namespace acme-web
kubectl create -f project-web.yaml -f project-mobile.yaml -f project-data.yaml`)
	other.must(documented(t, "tasks/back-up.md", "import"), dir)
	other.finally(uses(3))
	other.must("kubectl create -f - <<<'{apiVersion: resourcemanager.example.com/v1alpha1, kind: Organization, metadata: {name: acme}}'")
	other.finally("kubectl get resourcegrants more-acme -n bursar-system")
}
