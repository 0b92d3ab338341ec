package allocation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	quota "k8s.io/apiserver/pkg/quota/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/kube/progress"
	"github.com/bursar/bursar/internal/quantity"
)

// ObjectToStore returns the allocation with the status of this state. It shares nothing with the state: clients decode
// an answer into the given object.
func (s *State) ObjectToStore() *quotav1alpha1.ResourceQuotaAllocation {
	lines := make([]quotav1alpha1.NamespacedResourceList, 0, len(s.observed))
	for _, namespace := range slices.Sorted(maps.Keys(s.observed)) {
		lines = append(lines, quotav1alpha1.NamespacedResourceList{Namespace: namespace, Used: s.observed[namespace]})
	}
	object := *s.object
	object.Status.Allocated = corev1.ResourceQuotaStatus{Hard: object.Spec.Allocation.Hard, Used: s.total}
	object.Status.UsedByProject, object.Status.UnlimitedNamespaces = lines, s.unlimited
	object.Status.Summary = summary(s.total, object.Spec.Allocation.Hard)
	updated := object.DeepCopy()
	status := &updated.Status
	exceeded := s.exceeded()
	observed := max(status.ObservedGeneration, 0) // before the first observation it is negative
	exceeded.ObservedGeneration = observed
	apimeta.SetStatusCondition(&status.Conditions, exceeded)
	if s.limited != nil {
		limited := *s.limited
		limited.ObservedGeneration = observed
		apimeta.SetStatusCondition(&status.Conditions, limited)
	}
	return updated
}

const (
	// summaryMax is the largest number of resources in a summary.
	summaryMax = 4
	// summaryCharactersMax bounds a summary. Names of resources and amounts are ASCII.
	summaryCharactersMax = 200
)

// summary returns the usage of a cap as text.
func summary(used, hard corev1.ResourceList) string {
	names := slices.Sorted(maps.Keys(hard))
	parts := make([]string, 0, summaryMax+1)
	for _, name := range names[:min(len(names), summaryMax)] {
		u, h := used[name], hard[name]
		parts = append(parts, fmt.Sprintf("%s %s/%s", name, quantity.Text(u), quantity.Text(h)))
	}
	if more := len(names) - summaryMax; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	text := strings.Join(parts, ", ")
	if len(text) > summaryCharactersMax {
		return text[:summaryCharactersMax-3] + "..."
	}
	return text
}

// IsReady reports whether the status is Ready for the present generation.
func (s *State) IsReady() bool {
	ready := apimeta.FindStatusCondition(s.object.Status.Conditions, quotav1alpha1.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == s.object.Generation
}

// SetReady sets the condition Ready in the status.
func (s *State) SetReady(condition metav1.Condition) (isChanged bool) {
	condition.Type, condition.ObservedGeneration = quotav1alpha1.ConditionReady, s.object.Generation
	object := *s.object
	object.Status.Conditions = slices.Clone(object.Status.Conditions)
	state := progress.Waiting
	if condition.Status == metav1.ConditionTrue {
		state = progress.Reached
	}
	progress.Set(&object.Status.Conditions, state, condition)
	if isChanged = apimeta.SetStatusCondition(&object.Status.Conditions, condition); isChanged {
		s.object, s.isStatusChanged = &object, true
	}
	return isChanged
}

// exceeded returns the condition Exceeded.
func (s *State) exceeded() metav1.Condition {
	over := s.exceededResources()
	if len(over) == 0 {
		return metav1.Condition{Type: quotav1alpha1.ConditionExceeded, Status: metav1.ConditionFalse, Reason: quotav1alpha1.ReasonWithinCap,
			Message: "the ResourceQuotas of the selected namespaces are within the cap"}
	}
	parts := make([]string, 0, len(over))
	for _, name := range over {
		used, hard := s.total[name], s.object.Spec.Allocation.Hard[name]
		parts = append(parts, fmt.Sprintf("%s of %s %s", quantity.Text(used), quantity.Text(hard), name))
	}
	return metav1.Condition{Type: quotav1alpha1.ConditionExceeded, Status: metav1.ConditionTrue, Reason: quotav1alpha1.ReasonCapExceeded,
		Message: fmt.Sprintf("the ResourceQuotas exceed the cap: %s; Bursar takes nothing back, and denies higher amounts of these resources: lower ResourceQuotas, or raise the cap", strings.Join(parts, ", "))}
}

// exceededResources returns the resources beyond the cap, ordered by name.
func (s *State) exceededResources() []corev1.ResourceName {
	_, over := quota.LessThanOrEqual(s.total, s.object.Spec.Allocation.Hard)
	slices.Sort(over)
	return over
}

// Local returns the status for one member namespace. It shares nothing with the state.
func (s *State) Local(namespace string) quotav1alpha1.LocalResourceQuotaAllocationStatus {
	hard, taken := s.object.Spec.Allocation.Hard, s.taken[namespace]
	left := quota.SubtractWithNonNegativeResult(hard, s.total)
	held := quota.Add(zero(s.capped), taken)
	return quotav1alpha1.LocalResourceQuotaAllocationStatus{
		Allocated: corev1.ResourceQuotaStatus{Hard: hard.DeepCopy(), Used: s.total.DeepCopy()},
		Used:      held, Available: quota.Add(held, left),
		ObservedGeneration: s.object.Generation,
	}
}
