package importer

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// makers are the labels of ResourceQuotas made by another system, by its name.
var makers = map[string]string{
	"hnc.x-k8s.io/hrq":             "hierarchicalresourcequota",
	"capsule.clastix.io/tenant":    "capsule",
	openmcpv1alpha1.LabelManagedBy: "openmcp",
}

// readResourceQuotas reads the ResourceQuotas of Kubernetes.
func readResourceQuotas(ctx context.Context, c *cluster) (*reading, error) {
	quotas, err := readAll[corev1.ResourceQuota](ctx, c, corev1.SchemeGroupVersion.WithResource("resourcequotas"))
	if err != nil {
		return nil, err
	}
	return fromResourceQuotas(quotas), nil
}

// fromResourceQuotas takes over ResourceQuotas made by people. The consumer is the namespace.
func fromResourceQuotas(quotas []corev1.ResourceQuota) *reading {
	r := &reading{objectCount: len(quotas)}
	needsRequests := false
	for i := range quotas {
		q := &quotas[i]
		from := r.found("ResourceQuota", q.Namespace, q.Name)
		if system := makerOf(q); system != "" {
			r.note(from, "another system makes it: import it with --from "+system)
			continue
		}
		r.limits = append(r.limits, ownLimit("resourcequota", from, q.Namespace, &q.Spec))
		needsRequests = needsRequests || limitsCompute(q.Spec.Hard)
	}
	noteCompute(r, needsRequests)
	return r
}

func makerOf(q *corev1.ResourceQuota) string {
	for _, label := range sortedKeys(makers) {
		if _, isMade := q.Labels[label]; isMade {
			return makers[label]
		}
	}
	return ""
}

// ownLimit is a limit of one namespace.
func ownLimit(source, from, namespace string, spec *corev1.ResourceQuotaSpec) Limit {
	return Limit{From: from, Consumer: ownConsumer(source, namespace), Namespace: namespace, Scopes: scopesOf(spec), Hard: spec.Hard}
}

// limitsCompute reports whether a ResourceQuota limits CPU or memory.
func limitsCompute(hard corev1.ResourceList) bool {
	for name := range hard {
		if strings.HasSuffix(string(name), "cpu") || strings.HasSuffix(string(name), "memory") {
			return true
		}
	}
	return false
}

// noteCompute notes the effect of a ResourceQuota of CPU or memory besides counting.
func noteCompute(r *reading, isLimited bool) {
	if isLimited {
		r.note("limits of CPU and memory", "a ResourceQuota also rejects Pods whose containers name no requests or limits; "+
			"Bursar counts these with 0: set defaults by a LimitRange")
	}
}
