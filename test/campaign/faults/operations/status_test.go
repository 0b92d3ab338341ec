package operations

import (
	"fmt"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// TestStatusOfADeadOperator proves that the page reports an unreachable operator at once, although the leader's Lease
// is still fresh.
func TestStatusOfADeadOperator(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	// Nobody asks about the operator's own user.
	config, err := clientcmd.LoadFromFile(c.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate, user.ImpersonateGroups = "jane", []string{"system:masters"}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	status := fmt.Sprintf("%s status --kubeconfig %s", c.binary, path)
	c.must(status)
	c.die()
	c.refused(status, "webhooks     FAILED   the API server does not reach them, so nobody can create protected objects")
}
