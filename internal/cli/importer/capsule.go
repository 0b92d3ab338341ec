package importer

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// tenant is a Tenant of Capsule, as far as it limits something. The quotas of its rules are GlobalResourceQuotas.
type tenant struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		NamespaceOptions *struct {
			Quota *int64 `json:"quota"`
		} `json:"namespaceOptions"`
		ResourceQuotas struct {
			Scope string                     `json:"scope"`
			Items []corev1.ResourceQuotaSpec `json:"items"`
		} `json:"resourceQuotas"`
		LimitRanges *struct {
			Items []corev1.LimitRangeSpec `json:"items"`
		} `json:"limitRanges"`
	} `json:"spec"`
}

// globalQuota is a GlobalResourceQuota of Capsule: the sum over all namespaces with the labels of one of its selectors.
type globalQuota struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		NamespaceSelectors []metav1.LabelSelector   `json:"namespaceSelectors"`
		Quota              corev1.ResourceQuotaSpec `json:"quota"`
	} `json:"spec"`
}

var capsule = schema.GroupVersion{Group: "capsule.clastix.io", Version: "v1beta2"}

// otherQuotas are the kinds of Capsule with limits that have no equivalent, by resource.
var otherQuotas = map[string]struct{ kind, why string }{
	"resourcepools":      {"ResourcePool", "namespaces claim their shares of a pool themselves, and Bursar has no equivalent: keep it, or grant each namespace its share"},
	"customquotas":       {"CustomQuota", "it adds up fields of objects, or counts selected ones: keep it, or write a ClaimCreationPolicy with an amountExpression"},
	"globalcustomquotas": {"GlobalCustomQuota", "it adds up fields of objects, or counts selected ones: keep it, or write a ClaimCreationPolicy with an amountExpression"},
}

const (
	// tenantLabel is, on a namespace, the name of its tenant. Capsule sets it when it admits the namespace.
	tenantLabel = "capsule.clastix.io/tenant"
	// perNamespace is the scope of ResourceQuotas for each namespace of a tenant. Otherwise they limit all together.
	perNamespace = "Namespace"
)

func readCapsule(ctx context.Context, c *cluster) (*reading, error) {
	tenants, err := readAll[tenant](ctx, c, capsule.WithResource("tenants"))
	if err != nil {
		return nil, err
	}
	global, err := optional[globalQuota](ctx, c, capsule.WithResource("globalresourcequotas"))
	if err != nil {
		return nil, err
	}
	r := fromCapsule(tenants, global, c.namespaces, c.systemNamespace)
	for _, name := range sortedKeys(otherQuotas) {
		others, err := optional[metav1.PartialObjectMetadata](ctx, c, capsule.WithResource(name))
		if err != nil {
			return nil, err
		}
		for i := range others {
			r.note(objectRef(otherQuotas[name].kind, others[i].Namespace, others[i].Name), otherQuotas[name].why)
		}
	}
	return r, nil
}

// fromCapsule takes over the limits of Tenants and GlobalResourceQuotas.
func fromCapsule(tenants []tenant, global []globalQuota, all []corev1.Namespace, systemNamespace string) *reading {
	r := &reading{objectCount: len(tenants) + len(global)}
	for i := range tenants {
		r.limits = append(r.limits, limitsOfTenant(r, &tenants[i], all, systemNamespace)...)
	}
	for i := range global {
		q := &global[i]
		from := r.found("GlobalResourceQuota", "", q.Metadata.Name)
		if len(q.Spec.NamespaceSelectors) != 1 || (Selection{Labels: &q.Spec.NamespaceSelectors[0]}).isEmpty() {
			r.note(from, "an import takes over those with one selector of labels: keep it, or divide it")
			continue
		}
		r.limits = append(r.limits, Limit{
			From: from, Consumer: "globalresourcequota-" + q.Metadata.Name, Namespace: systemNamespace,
			Scopes: scopesOf(&q.Spec.Quota), Hard: q.Spec.Quota.Hard, Select: Selection{Labels: &q.Spec.NamespaceSelectors[0]},
		})
	}
	noteCompute(r)
	return r
}

// limitsOfTenant returns the limits of a Tenant. The consumer is the tenant, or each of its namespaces.
func limitsOfTenant(r *reading, t *tenant, all []corev1.Namespace, systemNamespace string) []Limit {
	from := r.found("Tenant", "", t.Metadata.Name)
	ofTenant := Limit{
		From: from, Consumer: "tenant-" + t.Metadata.Name, Namespace: systemNamespace,
		Select: Selection{Labels: &metav1.LabelSelector{MatchLabels: map[string]string{tenantLabel: t.Metadata.Name}}},
	}
	limits := customLimits(r, t, ofTenant)
	if o := t.Spec.NamespaceOptions; o != nil && o.Quota != nil {
		l := ofTenant
		l.Hard = corev1.ResourceList{countedNamespaces: *resource.NewQuantity(*o.Quota, resource.DecimalSI)}
		limits = append(limits, l)
	}
	if t.Spec.LimitRanges != nil && len(t.Spec.LimitRanges.Items) > 0 {
		r.note(from+": limitRanges", "they bound single objects and set defaults, and are not quota: keep them as LimitRanges")
	}
	isPerNamespace := t.Spec.ResourceQuotas.Scope == perNamespace
	for i := range t.Spec.ResourceQuotas.Items {
		item := &t.Spec.ResourceQuotas.Items[i]
		if isPerNamespace {
			limits = append(limits, limitsOfNamespaces(t, item, all)...)
			continue
		}
		l := ofTenant
		l.Hard, l.Scopes = item.Hard, scopesOf(item)
		limits = append(limits, l)
	}
	if isPerNamespace && len(t.Spec.ResourceQuotas.Items) > 0 {
		r.note(from+": resourceQuotas", fmt.Sprintf("the import takes them over for the present namespaces of %s: import again for new ones", t.Metadata.Name))
	}
	return limits
}

// customQuotaPrefix begins the annotations of a Tenant with the numbers of its custom resources, such as
// mysqls.databases.acme.corp_v1.
const customQuotaPrefix = "quota.resources.capsule.clastix.io/"

// customLimits returns the limits in the annotations of a Tenant. A Tenant limits a resource in one version, and Bursar
// in all.
func customLimits(r *reading, t *tenant, ofTenant Limit) []Limit {
	var limits []Limit
	for _, key := range sortedKeys(t.Metadata.Annotations) {
		kind, isQuota := strings.CutPrefix(key, customQuotaPrefix)
		if !isQuota {
			continue
		}
		name, _, hasVersion := strings.Cut(kind, "_")
		hasGroup := strings.Contains(name, ".")
		name = strings.TrimSuffix(name, ".") // in the core group
		amount, err := strconv.ParseInt(t.Metadata.Annotations[key], 10, 64)
		if err != nil || !hasVersion || !hasGroup {
			r.note(ofTenant.From+": "+key, fmt.Sprintf("%q is not the number of objects of a RESOURCE.GROUP_VERSION", t.Metadata.Annotations[key]))
			continue
		}
		l := ofTenant
		l.Hard = corev1.ResourceList{corev1.ResourceName(countPrefix + name): *resource.NewQuantity(amount, resource.DecimalSI)}
		limits = append(limits, l)
	}
	return limits
}

func limitsOfNamespaces(t *tenant, item *corev1.ResourceQuotaSpec, all []corev1.Namespace) []Limit {
	var limits []Limit
	for i := range all {
		if all[i].Labels[tenantLabel] == t.Metadata.Name {
			limits = append(limits, ownLimit("capsule", objectRef("Tenant", "", t.Metadata.Name), all[i].Name, item))
		}
	}
	return limits
}
