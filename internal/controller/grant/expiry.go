package grant

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// end is when allowances of a resource type end.
type end struct {
	at           time.Time
	resourceType string
}

func (e end) String() string { return e.resourceType + " ends at " + inUTC(e.at) }

// endsOf returns the ends after a time, in their order.
func endsOf(spec *quotav1alpha1.ResourceGrantSpec, after time.Time) []end {
	var ends []end
	for i := range spec.Allowances {
		p := spec.PeriodOf(&spec.Allowances[i])
		if p.NotAfter != nil && !p.HasEnded(after) && (p.NotBefore == nil || p.NotBefore.Before(p.NotAfter)) {
			ends = append(ends, end{p.NotAfter.Time, spec.Allowances[i].ResourceType})
		}
	}
	slices.SortStableFunc(ends, func(a, b end) int { return a.at.Compare(b.at) })
	return slices.Compact(ends)
}

// setExpiring sets the condition Expiring while ends of an active grant are near. Its message names them, and its last
// transition is when the message changed.
func (r *Reconciler) setExpiring(conditions *[]metav1.Condition, v result) {
	var near []string
	for _, e := range endsOf(&v.grant.Spec, v.at) {
		if v.active.Status == metav1.ConditionTrue && !v.at.Before(e.at.Add(-r.ExpiryNotice)) {
			near = append(near, e.String())
		}
	}
	text := strings.Join(near, ", ")
	if former := apimeta.FindStatusCondition(*conditions, quotav1alpha1.ConditionExpiring); former != nil && former.Message != text {
		apimeta.RemoveStatusCondition(conditions, quotav1alpha1.ConditionExpiring)
	}
	if text == "" {
		return
	}
	apimeta.SetStatusCondition(conditions, metav1.Condition{
		Type: quotav1alpha1.ConditionExpiring, Status: metav1.ConditionTrue, Reason: quotav1alpha1.ReasonGrantExpiring, Message: text,
		ObservedGeneration: v.grant.Generation, LastTransitionTime: metav1.NewTime(v.at),
	})
}

// recordEnds records events on newly near ends, and on formerly near ones now over.
func (r *Reconciler) recordEnds(v result, after *quotav1alpha1.ResourceGrant) {
	var before, now []string
	if c := apimeta.FindStatusCondition(v.grant.Status.Conditions, quotav1alpha1.ConditionExpiring); c != nil {
		before = strings.Split(c.Message, ", ")
	}
	if c := apimeta.FindStatusCondition(after.Status.Conditions, quotav1alpha1.ConditionExpiring); c != nil {
		now = strings.Split(c.Message, ", ")
	}
	consumer := after.Spec.ConsumerRef
	isKnown := func(e string) bool { return slices.Contains(before, e) }
	if slices.ContainsFunc(now, func(e string) bool { return !isKnown(e) }) {
		r.Events.Eventf(after, nil, corev1.EventTypeWarning, quotav1alpha1.EventGrantExpiring, "Watch", "%s %s loses quota soon: %s. %s",
			consumer.Kind, consumer.Name, strings.Join(now, ", "), adviceOn(after))
	}
	becameExpired := isExpired(after) && apimeta.IsStatusConditionTrue(v.grant.Status.Conditions, quotav1alpha1.ConditionActive)
	var over []string
	for i := range after.Spec.Allowances {
		p := after.Spec.PeriodOf(&after.Spec.Allowances[i])
		if !p.HasEnded(v.at) {
			continue
		}
		if e := (end{p.NotAfter.Time, after.Spec.Allowances[i].ResourceType}).String(); (isKnown(e) || becameExpired) && !slices.Contains(over, e) {
			over = append(over, e)
		}
	}
	if len(over) > 0 {
		r.Events.Eventf(after, nil, corev1.EventTypeWarning, quotav1alpha1.EventGrantExpired, "Watch",
			"%s %s no longer has quota of this grant: %s. Its usage stays, and counts against its remaining quota.", consumer.Kind, consumer.Name, strings.Join(over, ", "))
	}
}

// adviceOn returns advice on moving an end of a grant.
func adviceOn(grant *quotav1alpha1.ResourceGrant) string {
	if grant.Labels[quotav1alpha1.LabelPolicy] != "" {
		return "To move the end, change the GrantCreationPolicy that makes the grant"
	}
	if grant.Spec.NotAfter != nil && slices.ContainsFunc(grant.Spec.Allowances, func(a quotav1alpha1.Allowance) bool { return a.NotAfter != nil }) {
		return fmt.Sprintf("To move an end: bursar extend %s -n %s, with --type for an end of an allowance", grant.Name, grant.Namespace)
	}
	return fmt.Sprintf("To move the end: bursar extend %s -n %s", grant.Name, grant.Namespace)
}

func isExpired(grant *quotav1alpha1.ResourceGrant) bool {
	active := apimeta.FindStatusCondition(grant.Status.Conditions, quotav1alpha1.ConditionActive)
	return active != nil && active.Reason == quotav1alpha1.ReasonExpired
}
