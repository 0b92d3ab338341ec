package importer

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/bursar/bursar/internal/naming"
)

// isFinished is true for Pods after their end. ResourceQuotas count these only as objects.
const isFinished = `trigger.?status.?phase.orValue("") in ["Succeeded", "Failed"]`

// podMeasure returns the measure of a resource of Pods.
func podMeasure(name corev1.ResourceName) (measure, error) {
	m := measure{kind: pods, unit: counted("pod")}
	if name == corev1.ResourcePods {
		m.amount = isFinished + " ? 0 : 1"
		return m, nil
	}
	list, resource := ofContainers(string(name))
	if list == "" {
		return m, fmt.Errorf("no policy counts %s", name)
	}
	switch {
	case resource == "cpu":
		m.unit = cores
	case resource == "memory" || resource == "ephemeral-storage" || strings.HasPrefix(resource, corev1.ResourceHugePagesPrefix):
		m.unit = bytes
	default:
		m.unit = counted("unit")
	}
	m.amount = podAmount(list, resource)
	return m, nil
}

// ofContainers returns the list of a container, requests or limits, and the resource in it for a name in a
// ResourceQuota. The list is empty for other names.
func ofContainers(name string) (list, resource string) {
	if limited, isLimit := strings.CutPrefix(name, "limits."); isLimit {
		if slices.Contains([]string{"cpu", "memory", "ephemeral-storage"}, limited) {
			return "limits", limited
		}
		return "", ""
	}
	requested, isRequest := strings.CutPrefix(name, corev1.DefaultResourceRequestsPrefix)
	isShort := slices.Contains([]string{"cpu", "memory", "ephemeral-storage"}, name) || strings.HasPrefix(name, corev1.ResourceHugePagesPrefix)
	if !isRequest && !isShort {
		return "", ""
	}
	return "requests", requested
}

// podAmount returns the request or the limit of a Pod for a resource, plus the overhead. It is that of the Pod itself,
// if any. Otherwise it is the larger of two amounts: the sum of the containers, and the largest need of an init
// container beside the sidecars before it.
func podAmount(list, resource string) string {
	const inits = `trigger.spec.?initContainers.orValue([])`
	const isSidecar = `r.?restartPolicy.orValue("") == "Always"`
	running := `trigger.spec.containers + I.filter(r, ` + isSidecar + `)`
	starting := `I.map(c, I.filter(r, r.name == c.name || ` + isSidecar + ` && I.indexOf(r) < I.indexOf(c)))`
	sums := fmt.Sprintf(`([%s] + %s).map(P, P.map(c, quantity(c.?resources.?%s[?%q].orValue("0"))).sum())`, running, starting, list, resource)
	containers := fmt.Sprintf(`[%s].map(I, %s)[0]`, inits, maxOf(sums))
	overhead := fmt.Sprintf(`quantity(trigger.spec.?overhead[?%q].orValue("0"))`, resource)
	total := containers
	if hasPodLevel(resource) {
		of := fmt.Sprintf(`trigger.spec.?resources.?%s[?%q]`, list, resource)
		total = fmt.Sprintf(`(%s.hasValue() ? quantity(%s.value()) : %s)`, of, of, containers)
	}
	if list == "limits" {
		// A Pod without a limit has none by its overhead.
		return fmt.Sprintf(`%s ? quantity("0") : [%s].map(t, t > 0 ? t + %s : t)[0]`, isFinished, total, overhead)
	}
	return fmt.Sprintf(`%s ? quantity("0") : %s + %s`, isFinished, total, overhead)
}

// hasPodLevel reports whether a Pod as a whole can have a resource.
func hasPodLevel(resource string) bool {
	return resource == "cpu" || resource == "memory" || strings.HasPrefix(resource, corev1.ResourceHugePagesPrefix)
}

// isBestEffort is true for Pods without requests and limits of CPU and memory.
const isBestEffort = `!(trigger.spec.containers + trigger.spec.?initContainers.orValue([]) + [trigger.spec]).exists(c, ` +
	`["requests", "limits"].exists(k, ["cpu", "memory"].exists(n, quantity(c.?resources[?k][?n].orValue("0")) > 0)))`

// affinityAcross is true for Pods with other namespaces in their affinity.
const affinityAcross = `["podAffinity", "podAntiAffinity"].exists(k, [trigger.spec.?affinity[?k]].exists(a, (` +
	`a.?requiredDuringSchedulingIgnoredDuringExecution.orValue([]) + a.?preferredDuringSchedulingIgnoredDuringExecution.orValue([]).map(w, w.podAffinityTerm)` +
	`).exists(t, has(t.namespaceSelector) || size(t.?namespaces.orValue([])) > 0)))`

// scopeCondition returns a scope in CEL, or the reason why CEL cannot express it.
func scopeCondition(scope corev1.ScopedResourceSelectorRequirement) (string, error) {
	const deadline = `trigger.spec.?activeDeadlineSeconds.hasValue()`
	switch scope.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return deadline, nil
	case corev1.ResourceQuotaScopeNotTerminating:
		return "!" + deadline, nil
	case corev1.ResourceQuotaScopeBestEffort:
		return isBestEffort, nil
	case corev1.ResourceQuotaScopeNotBestEffort:
		return "!(" + isBestEffort + ")", nil
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return affinityAcross, nil
	case corev1.ResourceQuotaScopePriorityClass:
		const class = `trigger.spec.?priorityClassName.orValue("")`
		switch scope.Operator {
		case corev1.ScopeSelectorOpIn:
			return fmt.Sprintf("%s in [%s]", class, quoted(scope.Values)), nil
		case corev1.ScopeSelectorOpNotIn:
			return fmt.Sprintf("!(%s in [%s])", class, quoted(scope.Values)), nil
		case corev1.ScopeSelectorOpDoesNotExist:
			return class + ` == ""`, nil
		default:
			return class + ` != ""`, nil
		}
	default:
		return "", fmt.Errorf("no policy has the scope %s", scope.ScopeName)
	}
}

// scopesOf returns the scopes of a ResourceQuota in one form.
func scopesOf(spec *corev1.ResourceQuotaSpec) []corev1.ScopedResourceSelectorRequirement {
	var all []corev1.ScopedResourceSelectorRequirement
	for _, name := range spec.Scopes {
		all = append(all, corev1.ScopedResourceSelectorRequirement{ScopeName: name, Operator: corev1.ScopeSelectorOpExists})
	}
	if spec.ScopeSelector != nil {
		all = append(all, spec.ScopeSelector.MatchExpressions...)
	}
	return all
}

// scopeName names scopes in a resource type, such as besteffort. It is empty without scopes. Different scopes have
// different names.
func scopeName(scopes []corev1.ScopedResourceSelectorRequirement) string {
	names := make([]string, 0, len(scopes))
	for _, scope := range scopes {
		name := strings.ToLower(string(scope.ScopeName))
		if scope.ScopeName == corev1.ResourceQuotaScopePriorityClass {
			name = strings.ToLower("priority-" + string(scope.Operator))
			values := slices.Compact(slices.Sorted(slices.Values(scope.Values)))
			if len(values) > 0 {
				name += "-" + strings.Join(values, "-")
			}
			// Another list of values may give the same text, and other values look like another scope or type.
			if len(values) > 1 || strings.ContainsAny(name, "+/,") {
				name = strings.NewReplacer("+", "-", "/", "-", ",", "-").Replace(name) + "-" + naming.Suffix(values...)
			}
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), "+")
}
