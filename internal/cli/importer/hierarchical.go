package importer

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// hierarchicalResourceQuota is a HierarchicalResourceQuota of the Hierarchical Namespace Controller.
type hierarchicalResourceQuota struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Hard corev1.ResourceList `json:"hard"`
	} `json:"spec"`
}

var hierarchicalResourceQuotas = schema.GroupVersionResource{Group: "hnc.x-k8s.io", Version: "v1alpha2", Resource: "hierarchicalresourcequotas"}

// treeSuffix ends the labels in which a namespace names each namespace above it, and itself.
const treeSuffix = ".tree.hnc.x-k8s.io/depth"

func readHierarchicalResourceQuotas(ctx context.Context, c *cluster) (*reading, error) {
	quotas, err := readAll[hierarchicalResourceQuota](ctx, c, hierarchicalResourceQuotas)
	if err != nil {
		return nil, err
	}
	return fromHierarchicalResourceQuotas(quotas), nil
}

// fromHierarchicalResourceQuotas takes over HierarchicalResourceQuotas. The consumer is the tree below a namespace.
// This namespace shows its quota.
func fromHierarchicalResourceQuotas(quotas []hierarchicalResourceQuota) *reading {
	r := &reading{objectCount: len(quotas)}
	for i := range quotas {
		q := &quotas[i]
		tree := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: q.Metadata.Namespace + treeSuffix, Operator: metav1.LabelSelectorOpExists},
		}}
		r.limits = append(r.limits, Limit{
			From: r.found("HierarchicalResourceQuota", q.Metadata.Namespace, q.Metadata.Name), Consumer: "tree-" + q.Metadata.Namespace,
			Namespace: q.Metadata.Namespace, Hard: q.Spec.Hard, Select: Selection{Labels: tree},
		})
	}
	if len(quotas) > 0 {
		r.note("labels "+treeSuffix[1:], "HNC keeps them on namespaces, and the policies read them: keep HNC without its quotas, or keep these labels in another way")
	}
	noteCompute(r)
	return r
}
