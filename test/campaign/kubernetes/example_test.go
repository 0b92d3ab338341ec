package kubernetes

import "github.com/bursar/bursar/test/guide"

// testExample follows the README of the example, with the kinds of Kubernetes and its controllers.
func testExample(n *team) {
	if texts := guide.Follow(n.T, "examples/kubernetes/README.md", n.Servers[0].Kubeconfig("admin", "system:masters")); texts != 5 {
		n.Errorf("%d texts were compared, want 5", texts)
	}
}
