package importer

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// readOpenMCP reads the ResourceQuotas made by the quota operator of openMCP from its definitions and increases.
func readOpenMCP(ctx context.Context, c *cluster) (*reading, error) {
	quotas, err := readAll[corev1.ResourceQuota](ctx, c, corev1.SchemeGroupVersion.WithResource("resourcequotas"))
	if err != nil {
		return nil, err
	}
	increases, err := optional[metav1.PartialObjectMetadata](ctx, c, schema.GroupVersionResource(openmcpv1alpha1.GroupVersion.WithResource("quotaincreases")))
	if err != nil {
		return nil, err
	}
	definitions, err := optional[metav1.PartialObjectMetadata](ctx, c, schema.GroupVersionResource(openmcpv1alpha1.GroupVersion.WithResource("quotaserviceconfigs")))
	if err != nil {
		return nil, err
	}
	return fromOpenMCP(quotas, increases, definitions), nil
}

// fromOpenMCP takes over the ResourceQuotas of the quota operator, with the effect of the increases in them. It
// depends on the mode of the definition, and the operator writes it in an annotation of the increase.
func fromOpenMCP(quotas []corev1.ResourceQuota, increases, definitions []metav1.PartialObjectMetadata) *reading {
	r := &reading{}
	for i := range quotas {
		q := &quotas[i]
		if makerOf(q) != "openmcp" {
			continue
		}
		r.objectCount++
		r.limits = append(r.limits, ownLimit("openmcp", r.found("ResourceQuota", q.Namespace, q.Name), q.Namespace, &q.Spec))
	}
	for i := range increases {
		effect := increases[i].Annotations[openmcpv1alpha1.AnnotationEffect]
		is := "it has no effect now, and the grant has none of it"
		if effect != "" && effect != openmcpv1alpha1.EffectActive {
			is = fmt.Sprintf("its effect is part of the grant (%s)", strings.TrimPrefix(effect, openmcpv1alpha1.EffectActive+" "))
		}
		r.note(objectRef("QuotaIncrease", increases[i].Namespace, increases[i].Name), is+
			"; a later change does not count: ask for more with bursar request, or let Bursar serve QuotaIncreases itself (docs/tasks/quota-increases.md)")
	}
	for i := range definitions {
		r.note(objectRef("QuotaServiceConfig", definitions[i].Namespace, definitions[i].Name), "only the namespaces that exist now get its limits: "+
			"import again for new ones, or let Bursar serve QuotaServiceConfigs itself (docs/tasks/quota-increases.md)")
	}
	noteCompute(r)
	return r
}
