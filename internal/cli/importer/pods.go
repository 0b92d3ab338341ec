package importer

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/bursar/bursar/internal/naming"
)

// hasEnded is true for Pods that ResourceQuotas count only as objects: after their end, and once their deletion has no
// grace period left, so that only finalizers hold them.
const hasEnded = `trigger.?status.?phase.orValue("") in ["Succeeded", "Failed"] || trigger.metadata.?deletionGracePeriodSeconds.orValue(1) == 0`

// podMeasure returns the measure of a resource of Pods.
func podMeasure(name corev1.ResourceName) (measure, error) {
	m := measure{kind: pods, unit: counted("pod")}
	if name == corev1.ResourcePods {
		m.amount = hasEnded + " ? 0 : 1"
		return m, nil
	}
	function, resource := podFunction(string(name))
	if function == "" {
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
	m.amount = fmt.Sprintf(`%s ? quantity("0") : %s(trigger, %q)`, hasEnded, function, resource)
	return m, nil
}

// podFunction returns the function of policies for a name in a ResourceQuota, and the resource to call it with. The
// function is empty for names that are none of a Pod.
func podFunction(name string) (function, resource string) {
	if limited, isLimit := strings.CutPrefix(name, "limits."); isLimit {
		if slices.Contains([]string{"cpu", "memory", "ephemeral-storage"}, limited) {
			return "podLimits", limited
		}
		return "", ""
	}
	requested, isRequest := strings.CutPrefix(name, corev1.DefaultResourceRequestsPrefix)
	isShort := slices.Contains([]string{"cpu", "memory", "ephemeral-storage"}, name) || strings.HasPrefix(name, corev1.ResourceHugePagesPrefix)
	if !isRequest && !isShort {
		return "", ""
	}
	return "podRequests", requested
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
