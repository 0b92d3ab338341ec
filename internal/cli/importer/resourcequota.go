package importer

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// makers has, by the label of ResourceQuotas made by another system, this system. Labels of Capsule with the name of a
// tenant are none of these: it sets them on all objects in a tenant's namespaces.
var makers = map[string]string{
	"hnc.x-k8s.io/hrq":                         "hierarchicalresourcequota",
	"capsule.clastix.io/resource-quota":        "capsule",
	"projectcapsule.dev/global-resource-quota": "capsule",
	"projectcapsule.dev/pool":                  "capsule",
	openmcpv1alpha1.LabelManagedBy:             "openmcp",
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
	for i := range quotas {
		q := &quotas[i]
		from := r.found("ResourceQuota", q.Namespace, q.Name)
		if system := makerOf(q); system != "" {
			r.note(from, "another system makes it from limits of its own: import these with --from "+system)
			continue
		}
		r.limits = append(r.limits, ownLimit("resourcequota", from, q.Namespace, &q.Spec))
	}
	noteCompute(r)
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

// limitsCompute reports whether a limit is one of CPU or memory.
func limitsCompute(l Limit) bool {
	for name := range l.Hard {
		if strings.HasSuffix(string(name), "cpu") || strings.HasSuffix(string(name), "memory") {
			return true
		}
	}
	return false
}

// noteCompute notes the effect of limits of CPU or memory besides counting.
func noteCompute(r *reading) {
	if slices.ContainsFunc(r.limits, limitsCompute) {
		r.note("limits of CPU and memory", "a ResourceQuota also rejects Pods whose containers name no requests or limits; "+
			"Bursar counts these with 0: set defaults by a LimitRange")
	}
}
