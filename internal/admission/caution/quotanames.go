package caution

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
)

const (
	countPrefix  = "count/"
	limitsPrefix = "limits."
	classDomain  = ".storageclass.storage.k8s.io"
)

// classResources are the resources of a storage class.
var classResources = []corev1.ResourceName{corev1.ResourceRequestsStorage, corev1.ResourcePersistentVolumeClaims}

// QuotaNames warns of the names in ResourceQuotas that limit nothing. The API server accepts every name with a domain,
// and every count of a kind, also of one that it does not serve.
func (a *Adviser) QuotaNames(hard corev1.ResourceList) []string {
	var warnings []string
	names := quota.ResourceNames(hard)
	slices.Sort(names)
	for _, name := range names {
		if reason := a.limitsNothing(string(name)); reason != "" {
			warnings = append(warnings, fmt.Sprintf("%s limits nothing: %s", name, reason))
		}
	}
	return warnings
}

// limitsNothing returns why a name limits nothing, or "" if it may limit something.
func (a *Adviser) limitsNothing(name string) string {
	if kind, isCount := strings.CutPrefix(name, countPrefix); isCount {
		return a.countsNothing(kind)
	}
	domain, resource, isQualified := strings.Cut(name, "/")
	switch {
	case !isQualified:
		return "" // the API server knows these
	case slices.Contains(classResources, corev1.ResourceName(resource)):
		if class := strings.TrimSuffix(domain, classDomain); class == domain || class == "" {
			return fmt.Sprintf("a limit for a storage class is CLASS%s/%s", classDomain, resource)
		}
		return ""
	case strings.HasPrefix(name, corev1.DefaultResourceRequestsPrefix), strings.HasSuffix(domain, ".deviceclass.resource.k8s.io"):
		return ""
	case strings.HasPrefix(name, limitsPrefix):
		return fmt.Sprintf("Kubernetes counts the requests of extended resources only; name it %s%s", corev1.DefaultResourceRequestsPrefix, strings.TrimPrefix(name, limitsPrefix))
	default:
		return fmt.Sprintf("Kubernetes counts the requests of extended resources; name it %s%s", corev1.DefaultResourceRequestsPrefix, name)
	}
}

// countsNothing returns why a count of a resource, such as deployments.apps, limits nothing, or "" if it limits
// something.
func (a *Adviser) countsNothing(text string) string {
	wanted := schema.ParseGroupResource(text)
	found, err := a.Mapper.ResourcesFor(wanted.WithVersion("")) // also for a singular, in any case, and without a group
	switch {
	case apimeta.IsNoMatchError(err):
		return fmt.Sprintf("the API server serves no resource %s so far; name it as count/RESOURCE.GROUP, such as count/deployments.apps", text)
	case err != nil:
		return ""
	}
	i := slices.IndexFunc(found, func(f schema.GroupVersionResource) bool { return f.GroupResource() == wanted })
	if i < 0 {
		return fmt.Sprintf("the API server serves no resource %s; name it %s%s", text, countPrefix, found[0].GroupResource())
	}
	kind, err := a.Mapper.KindFor(found[i])
	if err != nil {
		return ""
	}
	mapping, err := a.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil || mapping.Scope.Name() == apimeta.RESTScopeNameNamespace {
		return ""
	}
	return fmt.Sprintf("%s are in no namespace", text)
}
