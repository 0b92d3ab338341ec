package kubernetes

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// testChart checks the installed chart. A restricted namespace admits its Pods. The operator's requests have a priority
// level of their own, and requests for ledgers have another.
func testChart(n *team) {
	n.eventually(func() error {
		var list corev1.PodList
		if err := n.List(n.Context(), &list, client.InNamespace(system)); err != nil {
			return err
		}
		if len(list.Items) != 3 {
			var sets appsv1.ReplicaSetList
			_ = n.List(n.Context(), &sets, client.InNamespace(system)) // they say why
			return fmt.Errorf("there are %d Pods of the chart, want 3: %+v", len(list.Items), sets.Items)
		}
		return nil
	})
	if err := n.Create(n.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "any", Namespace: system}, Spec: n.pod("any", 1).Spec}); err == nil || !strings.Contains(err.Error(), "violates PodSecurity \"restricted") {
		n.Errorf("a Pod that is not restricted: got %v, want it to be refused", err)
	}
	n.grant(map[string]int64{pods: 1}) // it makes Bursar write a ledger
	metrics := n.kubectl(n.T, "", "get", "--raw", "/metrics")
	for flow, level := range map[string]string{"bursar": "bursar", "bursar-ledgers": "bursar-ledgers", "bursar-leases": "bursar-ledgers"} {
		if want := fmt.Sprintf("apiserver_flowcontrol_dispatched_requests_total{flow_schema=%q,priority_level=%q}", flow, level); !strings.Contains(metrics, want) {
			n.Errorf("no request was counted as %s", want)
		}
	}
}
