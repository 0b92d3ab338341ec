package allocation

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Kubernetes counts some resources under two names, and every ResourceQuota may use either: cpu is requests.cpu, and
// secrets is count/secrets.
const (
	requestsPrefix = corev1.DefaultResourceRequestsPrefix
	countPrefix    = "count/"
)

// requested are the resources of Pods with a second name that begins with requestsPrefix, and counted are the kinds of
// the core group with a second name that begins with countPrefix. Pods are not among them: see countPods.
var (
	requested = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}
	counted   = []corev1.ResourceName{
		corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims, corev1.ResourceQuotas, corev1.ResourceReplicationControllers,
		corev1.ResourceSecrets, corev1.ResourceServices,
	}
)

// countPods counts all Pods, and corev1.ResourcePods only those that have not finished. So a limit on the former also
// limits the latter, and not the other way round.
const countPods corev1.ResourceName = countPrefix + "pods"

// OtherName returns the other name of a resource that Kubernetes counts under two names.
func OtherName(name corev1.ResourceName) (other corev1.ResourceName, found bool) {
	for prefix, names := range map[string][]corev1.ResourceName{requestsPrefix: requested, countPrefix: counted} {
		short, isLong := strings.CutPrefix(string(name), prefix)
		if !slices.Contains(names, corev1.ResourceName(short)) && !(prefix == requestsPrefix && strings.HasPrefix(short, corev1.ResourceHugePagesPrefix)) {
			continue
		}
		if isLong {
			return corev1.ResourceName(short), true
		}
		return corev1.ResourceName(prefix + short), true
	}
	return "", false
}

// alsoLimits returns the further name of the resource that a limit with this name limits.
func alsoLimits(name corev1.ResourceName) (other corev1.ResourceName, found bool) {
	if name == countPods {
		return corev1.ResourcePods, true
	}
	return OtherName(name)
}

// Limits returns the limits that a ResourceQuota sets, under every name: a limit of 4 for requests.cpu is one of 4 for
// cpu. Of two limits on the same resource the lower one binds. It does not change hard.
func Limits(hard corev1.ResourceList) corev1.ResourceList {
	limits := maps.Clone(hard)
	for name, amount := range hard {
		other, found := alsoLimits(name)
		if before, isLimited := limits[other]; found && (!isLimited || amount.Cmp(before) < 0) {
			limits[other] = amount
		}
	}
	return limits
}

// Limiting returns the names in a ResourceQuota that limit the resource with this name, in order.
func Limiting(hard corev1.ResourceList, name corev1.ResourceName) []corev1.ResourceName {
	var names []corev1.ResourceName
	for each := range hard {
		if other, found := alsoLimits(each); each == name || found && other == name {
			names = append(names, each)
		}
	}
	slices.Sort(names)
	return names
}
