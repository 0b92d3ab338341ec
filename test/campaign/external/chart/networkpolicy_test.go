package chart

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestNetworkPolicy names the peers that reach the port of the webhooks, besides the replicas.
func TestNetworkPolicy(t *testing.T) {
	kubeSystem := networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{
		MatchLabels: map[string]string{corev1.LabelMetadataName: metav1.NamespaceSystem},
	}}
	from := func(cidr string, except ...string) networkingv1.NetworkPolicyPeer {
		return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr, Except: except}}
	}
	for name, tt := range map[string]struct {
		reason, values string
		want           []networkingv1.NetworkPolicyPeer
	}{
		"defaults": {"a wrong policy would stop all creates", "", nil},
		"off":      {"somebody else limits the network", "networkPolicy: {enabled: false, podCIDRs: [10.244.0.0/16]}", nil},
		"Pods": {"an API server is no Pod, or calls through a tunnel in kube-system", "networkPolicy: {podCIDRs: [10.244.0.0/16]}",
			[]networkingv1.NetworkPolicyPeer{from("0.0.0.0/0", "10.244.0.0/16"), kubeSystem}},
		"Pods of both families": {"an API server may use either", "networkPolicy: {podCIDRs: [10.244.0.0/16, 'fd00:10:244::/56']}",
			[]networkingv1.NetworkPolicyPeer{from("0.0.0.0/0", "10.244.0.0/16"), from("::/0", "fd00:10:244::/56"), kubeSystem}},
		"API servers": {"their addresses are known", "networkPolicy: {webhookFrom: [{ipBlock: {cidr: 10.0.0.0/24}}]}",
			[]networkingv1.NetworkPolicyPeer{from("10.0.0.0/24")}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []networkingv1.NetworkPolicyPeer
			for _, object := range rendered(t, tt.values) {
				if policy, ok := object.(*networkingv1.NetworkPolicy); ok {
					got = policy.Spec.Ingress[0].From
				}
			}
			if len(got) > 0 {
				replicas := got[len(got)-1]
				if replicas.PodSelector == nil || replicas.PodSelector.MatchLabels["app.kubernetes.io/name"] != "bursar" {
					t.Errorf("the last peer are not the replicas: %v", got)
				}
				got = got[:len(got)-1]
			}
			if !slices.EqualFunc(got, tt.want, func(a, b networkingv1.NetworkPolicyPeer) bool { return a.String() == b.String() }) {
				t.Errorf("%s: got %v, want %v", tt.reason, got, tt.want)
			}
		})
	}
}
