package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
)

// declared checks whether registrations and grants are active.
func (r *reader) declared(ctx context.Context) Check {
	const name, detailsMax = "declared", 5
	var registrations quotav1alpha1.ResourceRegistrationList
	var grants quotav1alpha1.ResourceGrantList
	if err := errors.Join(r.objects.List(ctx, &registrations), r.objects.List(ctx, &grants)); err != nil {
		return unknown(name, err)
	}
	var inactive []string
	outOfPeriod := 0
	look := func(named string, conditions []metav1.Condition) {
		active := apimeta.FindStatusCondition(conditions, quotav1alpha1.ConditionActive)
		switch {
		case active == nil || active.Status != metav1.ConditionFalse:
		case active.Reason == quotav1alpha1.ReasonNotYetValid || active.Reason == quotav1alpha1.ReasonExpired:
			outOfPeriod++
		default:
			inactive = append(inactive, fmt.Sprintf("%s: %s", named, active.Message))
		}
	}
	for i := range registrations.Items {
		look("ResourceRegistration "+registrations.Items[i].Name, registrations.Items[i].Status.Conditions)
	}
	for i := range grants.Items {
		look(fmt.Sprintf("ResourceGrant %s/%s", grants.Items[i].Namespace, grants.Items[i].Name), grants.Items[i].Status.Conditions)
	}
	check := Check{Name: name, State: OK, Text: message.Count(len(registrations.Items), "registration", "registrations") +
		", " + message.Count(len(grants.Items), "grant", "grants")}
	if outOfPeriod > 0 {
		check.Text += fmt.Sprintf(", %d of them before or after their period", outOfPeriod)
	}
	if len(inactive) > 0 {
		check.State, check.Details = Failed, inactive[:min(len(inactive), detailsMax)]
		check.Text += fmt.Sprintf("; %d of these do not count", len(inactive))
	}
	return check
}

// failures counts enabled policies, and names those with a False condition.
type failures struct {
	enabled, disabled int
	details           []string
	// state is Failed if a policy does not work. A policy that worked for another object since does, and one wrong
	// object is no reason for an alarm.
	state State
}

func (f *failures) add(name string, isEnabled bool, conditions []metav1.Condition, evaluation *quotav1alpha1.EvaluationStatus) {
	if !isEnabled {
		f.disabled++
		return
	}
	f.enabled++
	isReady := apimeta.IsStatusConditionTrue(conditions, quotav1alpha1.ConditionReady)
	for _, condition := range []string{quotav1alpha1.ConditionReady, quotav1alpha1.ConditionApplicable, quotav1alpha1.ConditionParentContextReady} {
		c := apimeta.FindStatusCondition(conditions, condition)
		switch {
		case condition != quotav1alpha1.ConditionReady && !isReady: // the condition Ready says why
		case c == nil && condition == quotav1alpha1.ConditionReady:
			f.details = append(f.details, name+": no operator has checked it yet")
			f.state = Failed
		case c != nil && c.Status == metav1.ConditionFalse:
			f.details = append(f.details, fmt.Sprintf("%s: %s=False: %s", name, condition, c.Message))
			if isForSomeObjects := c.Reason == quotav1alpha1.ReasonEvaluationFailed && evaluation != nil && evaluation.LastSuccessTime != nil; !isForSomeObjects {
				f.state = Failed
			}
		}
	}
}

// addAdoption adds the existing objects that an enabled policy fails on. If it fails on all of them, it is the policy
// that is wrong.
func (f *failures) addAdoption(name string, policy *quotav1alpha1.ClaimCreationPolicy) {
	adoption := policy.Status.Adoption
	if !policy.IsEnabled() || adoption == nil || adoption.Failed == 0 || adoption.ObservedGeneration != policy.Generation {
		return
	}
	of := max(adoption.Total, adoption.Failed)
	if adoption.State == quotav1alpha1.AdoptionRunning {
		of = max(adoption.Processed, adoption.Failed)
	}
	detail := fmt.Sprintf("%s: it fails on %d of %s, which do not count", name, adoption.Failed, message.Count(of, "existing object", "existing objects"))
	if adoption.Message != "" {
		detail += ": " + adoption.Message
	}
	f.details = append(f.details, detail)
	if adoption.Failed == of {
		f.state = Failed
	}
}

func (f *failures) check(name string) Check {
	check := Check{Name: name, State: OK, Text: fmt.Sprintf("%d enabled, %d disabled", f.enabled, f.disabled), Details: f.details}
	if len(f.details) > 0 {
		check.State = cmp.Or(f.state, Warning)
	}
	return check
}

func (r *reader) claimPolicies(ctx context.Context) Check {
	const name = "policies"
	var list quotav1alpha1.ClaimCreationPolicyList
	if err := r.objects.List(ctx, &list); err != nil {
		return unknown(name, err)
	}
	var f failures
	for i := range list.Items {
		named := "ClaimCreationPolicy " + list.Items[i].Name
		f.add(named, list.Items[i].IsEnabled(), list.Items[i].Status.Conditions, list.Items[i].Status.Evaluation)
		f.addAdoption(named, &list.Items[i])
	}
	return f.check(name)
}

func (r *reader) grantPolicies(ctx context.Context) Check {
	const name = "grants"
	var list quotav1alpha1.GrantCreationPolicyList
	if err := r.objects.List(ctx, &list); err != nil {
		return unknown(name, err)
	}
	var f failures
	for i := range list.Items {
		f.add("GrantCreationPolicy "+list.Items[i].Name, list.Items[i].IsEnabled(), list.Items[i].Status.Conditions, nil)
	}
	check := f.check(name)
	check.Text += " policies for grants"
	return check
}

// viewsLagAfter is the age of a change from which people should know that the figures they read are older. A consumer's
// views show its next change after three seconds, unless many consumers changed at once.
const viewsLagAfter = 10 * time.Second

// lag checks the progress of policies over existing objects, and how old the shown figures are.
func (r *reader) lag(ctx context.Context) Check {
	check := r.adoption(ctx)
	if r.metrics == nil {
		return check
	}
	seconds, isKnown := r.metrics.sums["bursar_view_lag_seconds"]
	behind := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	switch {
	case !isKnown: // only the leader has it
	case behind > viewsLagAfter:
		check.warn(fmt.Sprintf("the shown figures are up to %s old: bursar usage, AllowanceBuckets and EffectiveResourceGrants "+
			"follow at ten consumers a second, while requests are decided by the current ones", behind))
	default:
		check.Text += "; the shown figures are current"
	}
	return check
}

// adoption checks the progress of policies over existing objects.
func (r *reader) adoption(ctx context.Context) Check {
	const name = "lag"
	var list quotav1alpha1.ClaimCreationPolicyList
	if err := r.objects.List(ctx, &list); err != nil {
		return unknown(name, err)
	}
	check := Check{Name: name, State: OK, Text: "Bursar has processed all objects"}
	for i := range list.Items {
		adoption := list.Items[i].Status.Adoption
		if adoption == nil {
			continue
		}
		if adoption.State == quotav1alpha1.AdoptionRunning {
			check.Text = "Bursar is processing existing objects"
			check.Details = append(check.Details, fmt.Sprintf("ClaimCreationPolicy %s: %d of %d", list.Items[i].Name, adoption.Processed, adoption.Total))
		}
	}
	return check
}

// ledgers checks whether the ledgers show what exists.
func (r *reader) ledgers(context.Context) Check {
	const name = "ledgers"
	if r.metrics == nil {
		return unknown(name, r.metricsErr)
	}
	if outdated := r.metrics.sums["bursar_ledgers_outdated"]; outdated > 0 {
		return Check{Name: name, State: Failed, Text: message.Count(outdated, "ledger does", "ledgers do") +
			" not show what exists, for more than 30 s; the operator's log says why"}
	}
	return Check{Name: name, State: OK, Text: "all show what exists"}
}
