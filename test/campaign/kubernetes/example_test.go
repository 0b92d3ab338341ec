package kubernetes

import "github.com/bursar/bursar/test/guide"

// testExample follows the README of the example, with the kinds of Kubernetes and its controllers.
func testExample(n *team) {
	if texts := guide.Follow(n.T, "examples/kubernetes/README.md", n.Servers[0].Kubeconfig("admin", "system:masters")); texts != 5 {
		n.Errorf("%d texts were compared, want 5", texts)
	}
}

// testFirstHour follows the tutorial, in a cluster with quota in a namespace of its own for each Project.
func testFirstHour(n *team) {
	if texts := guide.Follow(n.T, "docs/tutorials/first-hour-on-a-cluster.md", n.Servers[0].Kubeconfig("admin", "system:masters")); texts != 6 {
		n.Errorf("%d texts were compared, want 6", texts)
	}
}
