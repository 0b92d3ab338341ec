package importer

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// clusterResourceQuota is a ClusterResourceQuota of OpenShift.
type clusterResourceQuota struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Selector struct {
			Labels      *metav1.LabelSelector `json:"labels"`
			Annotations map[string]string     `json:"annotations"`
		} `json:"selector"`
		Quota corev1.ResourceQuotaSpec `json:"quota"`
	} `json:"spec"`
}

var clusterResourceQuotas = schema.GroupVersionResource{Group: "quota.openshift.io", Version: "v1", Resource: "clusterresourcequotas"}

func readClusterResourceQuotas(ctx context.Context, c *cluster) (*reading, error) {
	quotas, err := readAll[clusterResourceQuota](ctx, c, clusterResourceQuotas)
	if err != nil {
		return nil, err
	}
	return fromClusterResourceQuotas(quotas, c.systemNamespace), nil
}

// fromClusterResourceQuotas takes over ClusterResourceQuotas. Each is a consumer of all its selected namespaces. A
// namespace has to match the labels and the annotations of a selector.
func fromClusterResourceQuotas(quotas []clusterResourceQuota, systemNamespace string) *reading {
	r := &reading{objectCount: len(quotas)}
	for i := range quotas {
		q := &quotas[i]
		from := r.found("ClusterResourceQuota", "", q.Metadata.Name)
		selected := Selection{Labels: q.Spec.Selector.Labels, Annotations: q.Spec.Selector.Annotations}
		if selected.isEmpty() {
			r.note(from, "its selector names no label and no annotation, and OpenShift rejects such a selector")
			continue
		}
		r.limits = append(r.limits, Limit{
			From: from, Consumer: "clusterresourcequota-" + q.Metadata.Name, Namespace: systemNamespace,
			Scopes: scopesOf(&q.Spec.Quota), Hard: q.Spec.Quota.Hard, Select: selected,
		})
	}
	noteCompute(r)
	return r
}
