package importer

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// tenant is a Tenant of Capsule, as far as it limits something.
type tenant struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		NamespaceOptions *struct {
			Quota *int64 `json:"quota"`
		} `json:"namespaceOptions"`
		ResourceQuotas *struct {
			Scope string                     `json:"scope"`
			Items []corev1.ResourceQuotaSpec `json:"items"`
		} `json:"resourceQuotas"`
		LimitRanges *struct {
			Items []corev1.LimitRangeSpec `json:"items"`
		} `json:"limitRanges"`
	} `json:"spec"`
}

var (
	capsule       = schema.GroupVersion{Group: "capsule.clastix.io", Version: "v1beta2"}
	resourcePools = capsule.WithResource("resourcepools")
)

const (
	// tenantLabel is, on a namespace, the name of its tenant.
	tenantLabel = "capsule.clastix.io/tenant"
	// perNamespace is the scope of ResourceQuotas for each namespace of a tenant. Otherwise they limit all together.
	perNamespace = "Namespace"
)

func readCapsule(ctx context.Context, c *cluster) (*reading, error) {
	tenants, err := readAll[tenant](ctx, c, capsule.WithResource("tenants"))
	if err != nil {
		return nil, err
	}
	pools, err := optional[metav1.PartialObjectMetadata](ctx, c, resourcePools)
	if err != nil {
		return nil, err
	}
	r := fromTenants(tenants, c.namespaces, c.systemNamespace)
	for i := range pools {
		r.note(objectRef("ResourcePool", "", pools[i].Name), "tenants claim their shares of a pool themselves, and Bursar has no equivalent: keep it, or grant each namespace its share")
	}
	return r, nil
}

// fromTenants takes over the limits of Tenants. The consumer is the tenant, or each of its namespaces.
func fromTenants(tenants []tenant, all []corev1.Namespace, systemNamespace string) *reading {
	r := &reading{objectCount: len(tenants)}
	needsRequests := false
	for i := range tenants {
		t := &tenants[i]
		from := objectRef("Tenant", "", t.Metadata.Name)
		ofTenant := Limit{
			From: from, Consumer: "tenant-" + t.Metadata.Name, Namespace: systemNamespace,
			Select: Selection{Labels: &metav1.LabelSelector{MatchLabels: map[string]string{tenantLabel: t.Metadata.Name}}},
		}
		if o := t.Spec.NamespaceOptions; o != nil && o.Quota != nil {
			l := ofTenant
			l.Hard = corev1.ResourceList{countedNamespaces: *resource.NewQuantity(*o.Quota, resource.DecimalSI)}
			r.limits = append(r.limits, l)
		}
		if t.Spec.LimitRanges != nil && len(t.Spec.LimitRanges.Items) > 0 {
			r.note(from+": limitRanges", "they bound single objects and set defaults, and are not quota: keep them as LimitRanges")
		}
		if t.Spec.ResourceQuotas == nil {
			continue
		}
		for j := range t.Spec.ResourceQuotas.Items {
			item := &t.Spec.ResourceQuotas.Items[j]
			needsRequests = needsRequests || limitsCompute(item.Hard)
			if t.Spec.ResourceQuotas.Scope == perNamespace {
				r.limits = append(r.limits, limitsOfNamespaces(t, item, all)...)
				continue
			}
			l := ofTenant
			l.Hard, l.Scopes = item.Hard, scopesOf(item)
			r.limits = append(r.limits, l)
		}
		if t.Spec.ResourceQuotas.Scope == perNamespace {
			r.note(from+": resourceQuotas", fmt.Sprintf("they are taken over for the present namespaces of %s: import again for new ones", t.Metadata.Name))
		}
	}
	noteCompute(r, needsRequests)
	return r
}

func limitsOfNamespaces(t *tenant, item *corev1.ResourceQuotaSpec, all []corev1.Namespace) []Limit {
	var limits []Limit
	for i := range all {
		if all[i].Labels[tenantLabel] == t.Metadata.Name {
			limits = append(limits, ownLimit(objectRef("Tenant", "", t.Metadata.Name), all[i].Name, item))
		}
	}
	return limits
}
