package administrator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/console/web"
	"github.com/bursar/bursar/internal/usage"
)

// policiesView is the page of all policies.
type policiesView struct {
	Policies []policyRow
	// IsCut reports whether there are more policies than the page has.
	IsCut bool
}

// policyRow is a policy in the table.
type policyRow struct {
	Name, URL, Kind string
	Mode            quotav1alpha1.EnforcementMode
	// State is disabled, ready, or not ready, and Problem explains the last of these.
	State, Problem string
	IsBad          bool
	// Failures counts the failures to apply the policy to a request, and Failing explains the failure while it lasts.
	Failures int64
	Failing  string
	// Coverage describes how many existing objects the policy could be applied to. Those that cost nothing do not count.
	Coverage string
	// FailedObjects is the number of existing objects that the policy fails on.
	FailedObjects int64
}

func (a Area) policies(r *web.Request) (web.Answer, error) {
	var list quotav1alpha1.ClaimCreationPolicyList
	err := r.API().List(r.Context(), &list, client.Limit(listMax))
	if usage.IsOutOfReach(err) {
		return closed("Policies", mayNotReadPolicies), nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the ClaimCreationPolicies: %w", err)
	}
	view := &policiesView{IsCut: list.Continue != ""}
	for i := range list.Items {
		view.Policies = append(view.Policies, policyRowOf(&list.Items[i]))
	}
	return web.Page{
		Template: "administrator-policies", Title: "Policies", Data: view, Command: "kubectl get claimcreationpolicies",
		Live: []web.Watch{{Resource: "claimcreationpolicies"}},
	}, nil
}

const mayNotReadPolicies = "You may not list the policies (claimcreationpolicies). They state what counts, and for which consumer. " +
	"Ask an administrator of the platform: the roles bursar-quota-manager and bursar-platform-admin read them."

func policyRowOf(p *quotav1alpha1.ClaimCreationPolicy) policyRow {
	row := policyRow{
		Name: p.Name, URL: policyURL(p.Name, ""), Mode: modeOf(p), State: "ready",
		Kind:    p.Spec.Trigger.Resource.Kind + " (" + p.Spec.Trigger.Resource.APIVersion + ")",
		Failing: problemOf(p.Status.Conditions, quotav1alpha1.ConditionApplicable),
	}
	if e := p.Status.Evaluation; e != nil {
		row.Failures = e.Failed
	}
	switch {
	case !p.IsEnabled():
		row.State = "disabled"
	case !apimeta.IsStatusConditionTrue(p.Status.Conditions, quotav1alpha1.ConditionReady):
		row.State, row.IsBad, row.Problem = "not ready", true, problemOf(p.Status.Conditions, quotav1alpha1.ConditionReady)
	}
	row.Coverage = "not known yet"
	if adoption := p.Status.Adoption; adoption != nil {
		row.FailedObjects = adoption.Failed
		row.Coverage = cmp.Or(adoption.Progress, fmt.Sprint(adoption.Processed-adoption.Failed, "/", adoption.Total))
		if adoption.State == quotav1alpha1.AdoptionRunning {
			row.Coverage += ", in progress"
		}
	}
	return row
}

func modeOf(p *quotav1alpha1.ClaimCreationPolicy) quotav1alpha1.EnforcementMode {
	return cmp.Or(p.Spec.EnforcementMode, quotav1alpha1.EnforcementModeEnforce)
}

// policyURL returns the URL of a policy or, with a mode, of the preview of its change to the mode.
func policyURL(name, mode string) string {
	return web.Path("/policies/"+escaped(name), "mode", mode)
}

// policyView is the page of one policy.
type policyView struct {
	policyRow
	Types, Operations, Conditions string
	Consumer                      string
	About                         string
	States                        []condition
	Evaluation                    *quotav1alpha1.EvaluationStatus
	Adoption                      *quotav1alpha1.AdoptionStatus
	// Claims is how many claims of the policy there are, in words, or empty.
	Claims string
	Modes  []modeChoice
	// Change is the preview of a change of the mode, or nil.
	Change *modeChange
}

// modeChoice is a possible mode of the policy.
type modeChoice struct {
	Mode      quotav1alpha1.EnforcementMode
	About     string
	URL       string
	IsCurrent bool
}

// modes are all modes, starting with the one without denials.
var modes = []modeChoice{
	{Mode: quotav1alpha1.EnforcementModeAudit, About: "An object that exceeds a quota passes, and an event records the would-be denial."},
	{Mode: quotav1alpha1.EnforcementModeWarn, About: "An object that exceeds a quota passes, and its creator gets a warning."},
	{Mode: quotav1alpha1.EnforcementModeEnforce, About: "An object that exceeds a quota is denied. While Bursar is down, none can be created."},
}

func (a Area) policy(r *web.Request) (web.Answer, error) {
	policy := &quotav1alpha1.ClaimCreationPolicy{}
	if page, err := a.readPolicy(r, policy); page != nil || err != nil {
		return page, err
	}
	change, err := a.changeTo(r, policy, quotav1alpha1.EnforcementMode(r.Query("mode")))
	if err != nil {
		return nil, err
	}
	claims, err := claimsOf(r, policy.Name)
	if err != nil {
		return nil, err
	}
	page := policyPage(policy, change)
	page.Data.(*policyView).Claims = claims
	return page, nil
}

// claimsMax bounds the claims that the page of a policy counts.
const claimsMax = 1000

// claimsOf returns how many claims of a policy there are, in words. Many objects that a policy covers may cost nothing,
// and have none.
func claimsOf(r *web.Request, policy string) (string, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(quotav1alpha1.GroupVersion.WithKind("ResourceClaimList"))
	err := r.API().List(r.Context(), &list, client.MatchingLabels{quotav1alpha1.LabelPolicy: policy}, client.Limit(claimsMax))
	switch {
	case usage.IsOutOfReach(err):
		return "you may not list them", nil
	case err != nil:
		return "", fmt.Errorf("list the claims of the policy: %w", err)
	case list.Continue != "":
		return fmt.Sprintf("more than %d", len(list.Items)), nil
	default:
		return fmt.Sprint(len(list.Items)), nil
	}
}

// readPolicy reads the policy of a path. It returns a page if the person may not.
func (a Area) readPolicy(r *web.Request, policy *quotav1alpha1.ClaimCreationPolicy) (web.Answer, error) {
	err := r.API().Get(r.Context(), client.ObjectKey{Name: r.PathValue("name")}, policy)
	if err != nil && usage.IsOutOfReach(err) && !r.May(listPolicies) {
		return closed("Policy", mayNotReadPolicies), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the ClaimCreationPolicy: %w", err)
	}
	return nil, nil
}

// consumerOf describes the consumer of a policy's claims.
func consumerOf(template *quotav1alpha1.ResourceClaimTemplateSpec) string {
	if template.ConsumerRef == (quotav1alpha1.ConsumerRef{}) {
		return "the parent of the user's control plane"
	}
	return template.ConsumerRef.Kind + " " + template.ConsumerRef.Name
}

func policyPage(policy *quotav1alpha1.ClaimCreationPolicy, change *modeChange) web.Page {
	template := &policy.Spec.Target.ResourceClaimTemplate.Spec
	view := &policyView{
		policyRow: policyRowOf(policy), Types: strings.Join(template.ResourceTypes(), ", "), Change: change, Evaluation: policy.Status.Evaluation,
		Adoption: policy.Status.Adoption, Consumer: consumerOf(template),
		States: conditionsOf(policy.Status.Conditions, quotav1alpha1.ConditionReady, quotav1alpha1.ConditionApplicable),
	}
	var operations, conditions []string
	for _, operation := range policy.Spec.Trigger.Operations {
		operations = append(operations, string(operation))
	}
	for _, each := range slices.Concat(policy.Spec.Trigger.Conditions, policy.Spec.Trigger.Constraints) {
		conditions = append(conditions, each.Expression)
	}
	view.Operations, view.Conditions = strings.Join(operations, ", "), strings.Join(conditions, "\n")
	for _, each := range modes {
		each.IsCurrent, each.URL = each.Mode == view.Mode, policyURL(policy.Name, string(each.Mode))
		if each.IsCurrent {
			view.About = each.About
		}
		view.Modes = append(view.Modes, each)
	}
	page := web.Page{
		Template: "administrator-policy", Title: "Policy " + policy.Name, Data: view,
		Command: "kubectl get claimcreationpolicies " + policy.Name + " -o yaml",
		Live:    []web.Watch{{Resource: "claimcreationpolicies"}},
	}
	if change != nil {
		page.Command, page.Status = change.Command, change.Status
	}
	return page
}
