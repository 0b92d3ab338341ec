// Package quotarequest decides the outcome of a QuotaRequest, from the decisions on it and the present limits. It
// reads and writes nothing.
package quotarequest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Rule is the answer of the QuotaRequestPolicies to a request, or the default without any.
type Rule struct {
	// Ref names the rule. It is nil if no policy has one.
	Ref *quotav1alpha1.RequestPolicyRef
	// ResourceTypes are the resource types of its policy. Empty means all.
	ResourceTypes []string
	// Action approves or denies the request at once, with Message, or asks people.
	Action  quotav1alpha1.QuotaRequestAction
	Message string
	// Approvers are the groups whose members may decide. Without any, everybody with the right to decide may.
	Approvers []string
	// Approvals is how many different users have to approve, at least 1.
	Approvals int32
	// DurationMax is how long approved quota lasts at most. 0 means without an end.
	DurationMax time.Duration
}

// Combine returns the rule for a request for some resource types, if several rules apply. A denying rule comes first.
// Then come the rules that ask people, combined: as many approvals as the strictest of them demands, by members of
// all groups. A request is approved at once only if the approving rules cover all its resource types. Otherwise, and
// without a rule, Bursar asks somebody with the right to decide. It returns an error if no group is among the
// approvers of all rules.
func Combine(rules []Rule, resourceTypes []string) (Rule, error) {
	combined := Rule{Action: quotav1alpha1.ActionAsk}
	var approving []Rule
	for _, rule := range rules {
		switch rule.Action {
		case quotav1alpha1.ActionDeny:
			return rule, nil
		case quotav1alpha1.ActionApprove:
			approving = append(approving, rule)
		default:
			if err := combined.add(rule); err != nil {
				return Rule{}, err
			}
		}
	}
	if combined.Ref == nil && areCovered(resourceTypes, approving) {
		return approving[0], nil
	}
	combined.Approvals = max(combined.Approvals, 1)
	return combined, nil
}

// add makes a rule for approval by people as strict as another one.
func (r *Rule) add(other Rule) error {
	if r.Ref == nil || other.Approvals > r.Approvals {
		r.Ref, r.Message, r.Approvals = other.Ref, other.Message, max(other.Approvals, 1)
	}
	switch {
	case len(other.Approvers) == 0:
	case len(r.Approvers) == 0:
		r.Approvers = slices.Clone(other.Approvers)
	default:
		among := slices.DeleteFunc(r.Approvers, func(group string) bool { return !slices.Contains(other.Approvers, group) })
		if len(among) == 0 {
			return fmt.Errorf("rule %s asks other groups than another policy: name one group in all of them", other.Ref.Rule)
		}
		r.Approvers = among
	}
	return nil
}

// areCovered reports whether some rule is about each resource type.
func areCovered(resourceTypes []string, rules []Rule) bool {
	for _, resourceType := range resourceTypes {
		if !slices.ContainsFunc(rules, func(r Rule) bool { return len(r.ResourceTypes) == 0 || slices.Contains(r.ResourceTypes, resourceType) }) {
			return false
		}
	}
	return len(rules) > 0
}

// Outcome is the outcome of a request.
type Outcome struct {
	// Reason is the reason of the condition Approved.
	Reason string
	// Message is a sentence for people.
	Message string
	// Decisions are the counting decisions.
	Decisions []quotav1alpha1.RequestDecision
	// Approved is the quota to grant, if the outcome is an approval.
	Approved *quotav1alpha1.ApprovedQuota
}

// IsFinal reports whether the condition Approved of a request stays as it is.
func IsFinal(request *quotav1alpha1.QuotaRequest) bool {
	return slices.ContainsFunc(request.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == quotav1alpha1.ConditionApproved && c.Status != metav1.ConditionUnknown
	})
}

// Limits are the present limits of the request's consumer by resource type, in base units.
type Limits map[string]int64

// Decide returns the outcome, at a time, of a request without a final one.
func Decide(request *quotav1alpha1.QuotaRequest, decisions []quotav1alpha1.QuotaDecision, rule Rule, limits Limits, now time.Time) Outcome {
	if request.Spec.Withdrawn {
		return Outcome{Reason: quotav1alpha1.ReasonWithdrawn, Message: withdrawn(request)}
	}
	counting := Counting(request, decisions)
	made := decisionsOf(counting)
	byPolicy := func(decision quotav1alpha1.Decision) []quotav1alpha1.RequestDecision {
		return append(made, quotav1alpha1.RequestDecision{Decision: decision, DecidedAt: metav1.NewTime(now), PolicyRef: rule.Ref, Reason: rule.Message})
	}
	for i := range counting {
		if d := &counting[i]; d.Spec.Decision == quotav1alpha1.DecisionDeny {
			return Outcome{Reason: quotav1alpha1.ReasonDenied, Message: fmt.Sprintf("%s denied it: %s", d.Spec.DecidedBy.Username, d.Spec.Reason), Decisions: made}
		}
	}
	until := rule.end(request, counting, now)
	switch {
	case rule.Action == quotav1alpha1.ActionDeny:
		return Outcome{Reason: quotav1alpha1.ReasonDenied, Decisions: byPolicy(quotav1alpha1.DecisionDeny), Message: rule.deciding() + ": " + rule.Message}
	case until != nil && !now.Before(until.Time):
		return Outcome{Reason: quotav1alpha1.ReasonExpired, Message: "the requested or approved end of the quota has passed", Decisions: made}
	case rule.Action == quotav1alpha1.ActionApprove:
		return approve(request, nil, limits, byPolicy(quotav1alpha1.DecisionApprove), until)
	case len(counting) >= int(max(rule.Approvals, 1)):
		return approve(request, counting, limits, made, until)
	case request.Status.ExpiresAt != nil && !now.Before(request.Status.ExpiresAt.Time):
		return Outcome{Reason: quotav1alpha1.ReasonExpired, Message: "nobody decided on the request in time: ask again", Decisions: made}
	default:
		return Outcome{Reason: quotav1alpha1.ReasonPending, Message: pending(rule, len(counting)), Decisions: made}
	}
}

func withdrawn(request *quotav1alpha1.QuotaRequest) string {
	if by := request.Spec.WithdrawnBy; by != nil {
		return by.Username + " withdrew it"
	}
	return "it was withdrawn"
}

// Counting returns the decisions that count on a request, in their order: the first approval of each user, all denials,
// and none of the requester.
func Counting(request *quotav1alpha1.QuotaRequest, decisions []quotav1alpha1.QuotaDecision) []quotav1alpha1.QuotaDecision {
	sorted := slices.SortedFunc(slices.Values(decisions), func(a, b quotav1alpha1.QuotaDecision) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	hasApproved := map[string]bool{}
	return slices.DeleteFunc(sorted, func(d quotav1alpha1.QuotaDecision) bool {
		by, requester := d.Spec.DecidedBy, request.Spec.Requester
		switch {
		case types.UID(d.Spec.RequestRef.UID) != request.UID || by == nil || requester != nil && by.Username == requester.Username:
			return true
		case d.Spec.Decision == quotav1alpha1.DecisionDeny:
			return false
		}
		before := hasApproved[by.Username]
		hasApproved[by.Username] = true
		return before
	})
}

func decisionsOf(counting []quotav1alpha1.QuotaDecision) []quotav1alpha1.RequestDecision {
	var made []quotav1alpha1.RequestDecision
	for i := range counting {
		d := &counting[i]
		made = append(made, quotav1alpha1.RequestDecision{
			Decision: d.Spec.Decision, DecidedBy: d.Spec.DecidedBy.DeepCopy(), DecidedAt: d.CreationTimestamp, Reason: d.Spec.Reason,
		})
	}
	return made
}

// deciding names the denying policy.
func (r *Rule) deciding() string {
	switch {
	case r.Ref == nil:
		return "it cannot be granted"
	case r.Ref.Rule == "":
		return fmt.Sprintf("QuotaRequestPolicy %s denied it by a ceiling", r.Ref.Name)
	default:
		return fmt.Sprintf("QuotaRequestPolicy %s denied it by its rule %s", r.Ref.Name, r.Ref.Rule)
	}
}

// end returns the end of the quota, or nil: the earliest of the requested, the approved and the allowed ends.
func (r *Rule) end(request *quotav1alpha1.QuotaRequest, approvals []quotav1alpha1.QuotaDecision, now time.Time) *metav1.Time {
	ends := []*metav1.Time{request.Spec.Until}
	for i := range approvals {
		ends = append(ends, approvals[i].Spec.Until)
	}
	if r.DurationMax > 0 {
		ends = append(ends, new(metav1.NewTime(now.Add(r.DurationMax).Truncate(time.Second))))
	}
	var earliest *metav1.Time
	for _, end := range ends {
		if end != nil && (earliest == nil || end.Before(earliest)) {
			earliest = end
		}
	}
	return earliest.DeepCopy()
}

// approve returns the granted quota: of each amount the least approved one.
func approve(
	request *quotav1alpha1.QuotaRequest, approvals []quotav1alpha1.QuotaDecision, limits Limits, made []quotav1alpha1.RequestDecision, until *metav1.Time,
) Outcome {
	approved := &quotav1alpha1.ApprovedQuota{Until: until, Partial: !until.Equal(request.Spec.Until)}
	for i := range request.Spec.Requests {
		asked := &request.Spec.Requests[i]
		amount := AmountOf(asked)
		for j := range approvals {
			if less := approvals[j].Spec.Amounts; i < len(less) && less[i].Amount < amount {
				amount, approved.Partial = less[i].Amount, true
			}
		}
		if asked.Limit != nil {
			amount -= limits[asked.ResourceType]
		}
		if amount > 0 {
			approved.Increases = append(approved.Increases, quotav1alpha1.ApprovedIncrease{ResourceType: asked.ResourceType, Dimensions: asked.Dimensions, Increase: amount})
		}
	}
	if len(approved.Increases) > 0 {
		approved.Grant = "request-" + string(request.UID)
	}
	o := Outcome{Reason: quotav1alpha1.ReasonApproved, Decisions: made, Approved: approved, Message: "the request was approved"}
	if approved.Partial {
		o.Reason, o.Message = quotav1alpha1.ReasonPartiallyApproved, "a part of the request was approved"
	}
	if len(approved.Increases) == 0 {
		o.Message += ", and there is nothing to grant: the consumer has that much already, or the approvers agreed on no amount"
	}
	return o
}

// AmountOf returns the wanted limit or increase.
func AmountOf(r *quotav1alpha1.RequestedQuota) int64 {
	if r.Limit != nil {
		return *r.Limit
	}
	if r.Increase != nil {
		return *r.Increase
	}
	return 0
}

func pending(rule Rule, approvals int) string {
	text := "waits for a decision"
	if rule.Approvals > 1 {
		text = fmt.Sprintf("waits for %d approvals", rule.Approvals)
	}
	switch len(rule.Approvers) {
	case 0:
	case 1:
		text += " by the group " + rule.Approvers[0]
	default:
		text += " by the groups " + strings.Join(rule.Approvers, ", ")
	}
	if approvals > 0 {
		text += fmt.Sprintf(": %d given", approvals)
	}
	return text
}

// GrantSpec returns the spec of the grant of increases.
func GrantSpec(consumer quotav1alpha1.ConsumerRef, increases []quotav1alpha1.ApprovedIncrease, until *metav1.Time) *quotav1alpha1.ResourceGrantSpec {
	spec := &quotav1alpha1.ResourceGrantSpec{ConsumerRef: consumer, Period: quotav1alpha1.Period{NotAfter: until.DeepCopy()}}
	for i := range increases {
		allowance := quotav1alpha1.Allowance{ResourceType: increases[i].ResourceType, Buckets: []quotav1alpha1.Bucket{{Amount: increases[i].Increase}}}
		if len(increases[i].Dimensions) > 0 {
			allowance.DimensionSelector = &metav1.LabelSelector{MatchLabels: maps.Clone(increases[i].Dimensions)}
		}
		spec.Allowances = append(spec.Allowances, allowance)
	}
	return spec
}

// Approvers returns the approving users of a request, separated by commas. It is empty if a policy did.
func Approvers(request *quotav1alpha1.QuotaRequest) string {
	var names []string
	for _, d := range request.Status.Decisions {
		if d.Decision == quotav1alpha1.DecisionApprove && d.DecidedBy != nil {
			names = append(names, d.DecidedBy.Username)
		}
	}
	return strings.Join(names, ", ")
}
