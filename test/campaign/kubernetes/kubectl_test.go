package kubernetes

import (
	"fmt"
	"slices"
	"strings"
)

// devices is the API of devices. It has ResourceClaims too.
const devices = "resource.k8s.io/v1"

const manifest = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: web, resources: {requests: {memory: 10Mi}}}
`

// testKubectl runs the usual commands of people.
func testKubectl(n *team) {
	n.grant(map[string]int64{pods: 2, memory: 1000 * mebibyte, replica: 2})
	for range 2 {
		n.kubectl(n.T, manifest, "apply", "-n", n.name, "-f", "-")
	}
	n.wantAllocated(replica, 1, 1)
	n.kubectl(n.T, "", "scale", "-n", n.name, "deployment/web", "--replicas=2")
	n.wantPods(2, 10)

	for _, refused := range []struct{ command, want string }{
		{"scale deployment/web --replicas=3", replica + " quota of Organization " + n.name + ", requested: 1 replicas (3 replicas in total), used: 2, limited: 2"},
		{"run more --image=web", "Pod quota of Organization " + n.name + ", requested: 1 pods, used: 2, limited: 2"},
	} {
		n.eventually(func() error { // denials leave out the figures if it takes too long to find out who may see them
			stdout, stderr, code := n.Kubectl("", append([]string{"-n", n.name}, strings.Fields(refused.command)...)...)
			if code != 1 || stdout != "" || !strings.HasPrefix(stderr, "Error from server (Forbidden): ") || !strings.Contains(stderr, "exceeded quota: "+refused.want) {
				return fmt.Errorf("kubectl %s: exit code %d, %q and %q, want 1 and %q", refused.command, code, stdout, stderr, refused.want)
			}
			return nil
		})
	}

	n.eventually(func() error { // the buckets follow the ledgers
		selector := fmt.Sprintf("spec.consumerRef.name=%s,spec.resourceType=%s", n.name, pods)
		got := n.kubectl(n.T, "", "get", "allowancebuckets", "-n", system, "--field-selector", selector)
		lines := strings.Split(got, "\n")
		if !strings.HasPrefix(strings.Join(strings.Fields(lines[0]), " "), "NAME RESOURCE TYPE LIMIT ALLOCATED AVAILABLE CLAIMS AGE") ||
			!slices.Equal(strings.Fields(lines[1])[1:6], []string{pods, "2", "2", "0", "2"}) {
			return fmt.Errorf("the bucket is shown as\n%s", got)
		}
		return nil
	})
	// From 1.34 on Kubernetes has ResourceClaims of its own, and by default kubectl takes those.
	if n.serves(n.T, devices, "resourceclaims") {
		if got := n.kubectl(n.T, "", "get", "resourceclaims", "-n", n.name); got != "" {
			n.Errorf("kubectl get resourceclaims shows\n%s", got)
		}
	}
	for _, name := range []string{"rclaim", "resourceclaims.quota.miloapis.com"} {
		got := strings.Join(strings.Fields(n.kubectl(n.T, "", "get", name, "-n", n.name)), " ")
		if !strings.HasPrefix(got, "NAME GRANTED RESOURCE AGE CONSUMER KIND OBJECT REQUESTS REASON") || strings.Count(got, "True "+pods) != 2 || strings.Count(got, "True "+replica) != 1 {
			n.Errorf("kubectl get %s shows %s", name, got)
		}
	}
}
