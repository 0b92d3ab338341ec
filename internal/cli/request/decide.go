package request

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/quotarequest"
	"github.com/bursar/bursar/internal/usage"
)

// DecideOptions are a decision to make.
type DecideOptions struct {
	// Request is the QuotaRequest.
	Request client.ObjectKey
	// UID is the UID of the request seen by the decider. The API server rejects the decision if another request has the
	// name now. Empty: the present one.
	UID types.UID
	// Decision is Approve or Deny.
	Decision quotav1alpha1.Decision
	// Amounts approve less. The decision approves all other amounts as requested.
	Amounts []Amount
	// Units are the display units of the resource types, for amounts in display units.
	Units map[string]usage.Unit
	// Until approves for a shorter time. It may be nil.
	Until *metav1.Time
	// Reason is for the requester.
	Reason string
}

// Check returns an error if something is missing.
func (o *DecideOptions) Check() error {
	if o.Decision == quotav1alpha1.DecisionDeny && strings.TrimSpace(o.Reason) == "" {
		return invalid("", "give a reason with --reason: the requester reads it")
	}
	return nil
}

// Decide makes a valid decision, see [DecideOptions.Check], on a request, and waits until the controller takes it up.
// It returns the decision and the request after it.
func Decide(ctx context.Context, api client.WithWatch, o DecideOptions) (*quotav1alpha1.QuotaDecision, *quotav1alpha1.QuotaRequest, error) {
	// The rights to decide are known once there is a state.
	request, err := Wait(ctx, api, o.Request, false, StateTimeout)
	if err != nil {
		return nil, nil, err
	}
	decision := &quotav1alpha1.QuotaDecision{
		ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, GenerateName: generatedName(request.Name)},
		Spec: quotav1alpha1.QuotaDecisionSpec{
			RequestRef: quotav1alpha1.DecidedRequestRef{Name: request.Name, UID: string(cmp.Or(o.UID, request.UID))},
			Decision:   o.Decision, Until: o.Until, Reason: o.Reason,
		},
	}
	if decision.Spec.Amounts, err = decided(request, o.Amounts, o.Units); err != nil {
		return nil, nil, err
	}
	if err := api.Create(ctx, decision); err != nil {
		return nil, nil, failure(fmt.Sprintf("%s QuotaRequest %s", strings.ToLower(string(o.Decision)), o.Request), err)
	}
	after, err := await(ctx, api, o.Request, StateTimeout, func(request *quotav1alpha1.QuotaRequest) bool {
		return isFinal(request) || hasTakenUp(request, decision) && !isInTransit(request)
	})
	return decision, after, err
}

// hasTakenUp reports whether a decision is among those that count.
func hasTakenUp(request *quotav1alpha1.QuotaRequest, decision *quotav1alpha1.QuotaDecision) bool {
	by := decision.Spec.DecidedBy
	return by != nil && slices.ContainsFunc(request.Status.Decisions, func(d quotav1alpha1.RequestDecision) bool {
		return quotarequest.IsSameUser(d.DecidedBy, by) && d.Decision == decision.Spec.Decision
	})
}

// decided returns the approved amount for each requested one, or nothing if the decision approves all as requested.
func decided(request *quotav1alpha1.QuotaRequest, amounts []Amount, units map[string]usage.Unit) ([]quotav1alpha1.DecidedQuota, error) {
	if len(amounts) == 0 {
		return nil, nil
	}
	all := make([]quotav1alpha1.DecidedQuota, 0, len(request.Spec.Requests))
	known := make([]string, 0, len(request.Spec.Requests))
	for i := range request.Spec.Requests {
		asked := &request.Spec.Requests[i]
		all = append(all, quotav1alpha1.DecidedQuota{ResourceType: asked.ResourceType, Amount: quotarequest.AmountOf(asked)})
		known = append(known, asked.ResourceType)
	}
	seen := map[string]bool{}
	for _, a := range amounts {
		resourceType, err := TypeNamed(a.Type, known)
		if err != nil {
			return nil, err
		}
		at := slices.Index(known, resourceType)
		switch {
		case at < 0:
			return nil, invalid("", "QuotaRequest %s asks for no %s, but for %s", request.Name, a.Type, asks(request))
		case seen[resourceType]:
			return nil, invalid("", "%s is named twice: give one amount", resourceType)
		case slices.Contains(known[at+1:], resourceType):
			return nil, invalid("", "QuotaRequest %s asks for %s for several dimensions: approve all, or make the QuotaDecision with kubectl",
				request.Name, resourceType)
		case a.IsIncrease && request.Spec.Requests[at].Increase == nil:
			return nil, invalid("", "QuotaRequest %s asks for a limit of %s: approve a limit, such as %s=%d", request.Name, resourceType, a.Type, a.Value)
		}
		seen[resourceType] = true
		if a, err = a.InBaseUnits(units[resourceType], 0); err != nil {
			return nil, err
		}
		all[at].Amount = a.Value
	}
	return all, nil
}

// DecisionText returns the decision and its effect on the request, a sentence each. Amounts without a unit are in base
// units.
func DecisionText(decision *quotav1alpha1.QuotaDecision, request *quotav1alpha1.QuotaRequest, units map[string]usage.Unit) string {
	name := request.Namespace + "/" + request.Name
	if decision.Spec.Decision == quotav1alpha1.DecisionDeny {
		return fmt.Sprintf("You denied QuotaRequest %s.\n%s", name, StateText(request))
	}
	what := asks(request)
	if len(decision.Spec.Amounts) > 0 {
		what = approvedText(decision, request, units)
	}
	if until := decision.Spec.Until; until != nil {
		what += " until " + inUTC(until)
	}
	text := fmt.Sprintf("You approved QuotaRequest %s: %s.\n%s", name, what, StateText(request))
	if missing := int(request.Status.ApprovalsNeeded) - approvals(request); !isFinal(request) && missing > 0 {
		text += message.Count(missing, "more approval is", "more approvals are") + " needed.\n"
	}
	return text
}

// approvedText returns the approved amounts.
func approvedText(decision *quotav1alpha1.QuotaDecision, request *quotav1alpha1.QuotaRequest, units map[string]usage.Unit) string {
	parts := make([]string, 0, len(decision.Spec.Amounts))
	for i, d := range decision.Spec.Amounts {
		sign := ""
		if request.Spec.Requests[i].Increase != nil {
			sign = "+"
		}
		parts = append(parts, path.Base(d.ResourceType)+"="+sign+units[d.ResourceType].Amount(d.Amount))
	}
	return strings.Join(parts, ", ") + " (asked: " + asks(request) + ")"
}

// approvals returns how many users have approved.
func approvals(request *quotav1alpha1.QuotaRequest) int {
	n := 0
	for _, d := range request.Status.Decisions {
		if d.Decision == quotav1alpha1.DecisionApprove {
			n++
		}
	}
	return n
}
