package kubernetes

import (
	"fmt"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/backup"
	"github.com/bursar/bursar/internal/cli/restore"
)

// losesGrant deletes the grant of the team, and restores it from a backup. The restore acts as the operator: as the
// ServiceAccount of the chart. No other test may change declarations meanwhile.
func (n *team) losesGrant(admin *rest.Config) {
	n.Helper()
	discovered, err := discovery.NewDiscoveryClientForConfig(admin)
	n.must(err)
	objects, err := dynamic.NewForConfig(admin)
	n.must(err)
	path := filepath.Join(n.TempDir(), "quota.tar.gz")
	_, err = backup.Write(n.Context(), backup.Options{Discovery: discovered, Dynamic: objects, Path: path, Version: "test"})
	n.must(err)

	n.must(n.Delete(n.Context(), &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Name: n.name, Namespace: n.name}}))
	n.wantLimit(pods, 0)
	report, err := restore.Run(n.Context(), restore.Options{Config: admin, Path: path, Timeout: soon})
	n.must(err)
	var text strings.Builder
	n.must(report.Print(&text, ""))
	if !strings.Contains(text.String(), "The ledgers agree with the claims.") {
		n.Errorf("the report is\n%s", &text)
	}
	n.wantLimit(pods, n.granted[pods])
}

// wantLimit waits until the bucket of a resource type has a limit.
func (n *team) wantLimit(resourceType string, want int64) {
	n.Helper()
	n.eventually(func() error {
		if got := n.bucket(resourceType).Limit; got != want {
			return fmt.Errorf("the limit of %s is %d, want %d", resourceType, got, want)
		}
		return nil
	})
}
