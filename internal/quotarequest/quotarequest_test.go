package quotarequest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func at(hours int) *metav1.Time {
	return &metav1.Time{Time: noon.Add(time.Duration(hours) * time.Hour)}
}

// asked is a request of tom for a limit of 10 maps and 5 more pods.
func asked(change func(*quotav1alpha1.QuotaRequest)) *quotav1alpha1.QuotaRequest {
	r := &quotav1alpha1.QuotaRequest{ObjectMeta: metav1.ObjectMeta{Name: "more", UID: "u"}}
	r.Spec.Requester = &quotav1alpha1.RequestUser{Username: "tom"}
	r.Spec.Requests = []quotav1alpha1.RequestedQuota{{ResourceType: "maps", Limit: new(int64(10))}, {ResourceType: "pods", Increase: new(int64(5))}}
	if change != nil {
		change(r)
	}
	return r
}

// decided is a decision of a user.
func decided(by string, decision quotav1alpha1.Decision, change func(*quotav1alpha1.QuotaDecisionSpec)) quotav1alpha1.QuotaDecision {
	d := quotav1alpha1.QuotaDecision{ObjectMeta: metav1.ObjectMeta{Name: by, CreationTimestamp: metav1.NewTime(noon)}}
	d.Spec = quotav1alpha1.QuotaDecisionSpec{
		RequestRef: quotav1alpha1.DecidedRequestRef{Name: "more", UID: "u"}, Decision: decision, DecidedBy: &quotav1alpha1.RequestUser{Username: by}, Reason: "because",
	}
	if change != nil {
		change(&d.Spec)
	}
	return d
}

func TestDecide(t *testing.T) {
	const approves, denies = quotav1alpha1.DecisionApprove, quotav1alpha1.DecisionDeny
	less := func(maps, pods int64) func(*quotav1alpha1.QuotaDecisionSpec) {
		return func(s *quotav1alpha1.QuotaDecisionSpec) {
			s.Amounts = []quotav1alpha1.DecidedQuota{{ResourceType: "maps", Amount: maps}, {ResourceType: "pods", Amount: pods}}
		}
	}
	shorter := func(s *quotav1alpha1.QuotaDecisionSpec) { s.Until = at(2) }
	ofAnother := func(s *quotav1alpha1.QuotaDecisionSpec) { s.RequestRef.UID = "other" }
	byNobody := func(s *quotav1alpha1.QuotaDecisionSpec) { s.DecidedBy = nil }
	policy := &quotav1alpha1.RequestPolicyRef{Name: "small", Rule: "r"}
	type decisions []quotav1alpha1.QuotaDecision
	tests := map[string]struct {
		change    func(*quotav1alpha1.QuotaRequest)
		decisions decisions
		rule      Rule
		reason    string
		granted   string // the increases
	}{
		"nobody decided":                   {reason: "Pending"},
		"approved":                         {decisions: decisions{decided("ann", approves, nil)}, reason: "Approved", granted: "maps 6, pods 5"},
		"approved less":                    {decisions: decisions{decided("ann", approves, less(7, 0))}, reason: "PartiallyApproved", granted: "maps 3"},
		"approved what it has":             {decisions: decisions{decided("ann", approves, less(4, 0))}, reason: "PartiallyApproved"},
		"approved for a shorter time":      {decisions: decisions{decided("ann", approves, shorter)}, reason: "PartiallyApproved", granted: "maps 6, pods 5 until 14"},
		"denied":                           {decisions: decisions{decided("ann", denies, nil)}, reason: "Denied"},
		"approved and denied":              {decisions: decisions{decided("ann", approves, nil), decided("bob", denies, nil)}, rule: Rule{Approvals: 2}, reason: "Denied"},
		"one's own":                        {decisions: decisions{decided("tom", approves, nil)}, reason: "Pending"},
		"of another request":               {decisions: decisions{decided("ann", approves, ofAnother)}, reason: "Pending"},
		"of nobody":                        {decisions: decisions{decided("ann", approves, byNobody)}, reason: "Pending"},
		"one of two":                       {decisions: decisions{decided("ann", approves, nil)}, rule: Rule{Approvals: 2}, reason: "Pending"},
		"one twice":                        {decisions: decisions{decided("ann", approves, nil), decided("ann", approves, nil)}, rule: Rule{Approvals: 2}, reason: "Pending"},
		"two of two, the least counts":     {decisions: decisions{decided("ann", approves, less(9, 4)), decided("bob", approves, less(10, 2))}, rule: Rule{Approvals: 2}, reason: "PartiallyApproved", granted: "maps 5, pods 2"},
		"who approved denies":              {decisions: decisions{decided("ann", approves, nil), decided("ann", denies, nil)}, rule: Rule{Approvals: 2}, reason: "Denied"},
		"approved after its end":           {change: func(r *quotav1alpha1.QuotaRequest) { r.Spec.Until = at(-1) }, decisions: decisions{decided("ann", approves, nil)}, reason: "Expired"},
		"approvals with nothing in common": {decisions: decisions{decided("ann", approves, less(4, 5)), decided("bob", approves, less(10, 0))}, rule: Rule{Approvals: 2}, reason: "PartiallyApproved"},
		"withdrawn":                        {change: func(r *quotav1alpha1.QuotaRequest) { r.Spec.Withdrawn = true }, decisions: decisions{decided("ann", approves, nil)}, reason: "Withdrawn"},
		"not in time":                      {change: func(r *quotav1alpha1.QuotaRequest) { r.Status.ExpiresAt = at(0) }, reason: "Expired"},
		"decided at the last moment":       {change: func(r *quotav1alpha1.QuotaRequest) { r.Status.ExpiresAt = at(0) }, decisions: decisions{decided("ann", approves, nil)}, reason: "Approved", granted: "maps 6, pods 5"},
		"too late for what it was for":     {change: func(r *quotav1alpha1.QuotaRequest) { r.Spec.Until = at(-1) }, reason: "Expired"},
		"by a policy":                      {rule: Rule{Ref: policy, Action: quotav1alpha1.ActionApprove}, reason: "Approved", granted: "maps 6, pods 5"},
		"denied by a policy":               {rule: Rule{Ref: policy, Action: quotav1alpha1.ActionDeny, Message: "too much"}, reason: "Denied"},
		"until is kept":                    {change: func(r *quotav1alpha1.QuotaRequest) { r.Spec.Until = at(5) }, decisions: decisions{decided("ann", approves, nil)}, reason: "Approved", granted: "maps 6, pods 5 until 17"},
		"a longer time than asked":         {change: func(r *quotav1alpha1.QuotaRequest) { r.Spec.Until = at(1) }, decisions: decisions{decided("ann", approves, shorter)}, reason: "Approved", granted: "maps 6, pods 5 until 13"},
		"by a policy, for three hours":     {rule: Rule{Ref: policy, Action: quotav1alpha1.ActionApprove, DurationMax: 3 * time.Hour}, reason: "PartiallyApproved", granted: "maps 6, pods 5 until 15"},
		"shorter than three hours":         {change: func(r *quotav1alpha1.QuotaRequest) { r.Spec.Until = at(2) }, rule: Rule{Ref: policy, Action: quotav1alpha1.ActionApprove, DurationMax: 3 * time.Hour}, reason: "Approved", granted: "maps 6, pods 5 until 14"},
		"more than asked is not granted":   {decisions: decisions{decided("ann", approves, less(100, 100))}, reason: "Approved", granted: "maps 6, pods 5"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := Decide(asked(tt.change), tt.decisions, tt.rule, Limits{"maps": 4}, noon)
			if o.Reason != tt.reason {
				t.Errorf("got %s (%s), want %s", o.Reason, o.Message, tt.reason)
			}
			if diff := cmp.Diff(tt.granted, grantedText(o.Approved)); diff != "" {
				t.Errorf("granted (-want +got):\n%s", diff)
			}
		})
	}
}

func grantedText(a *quotav1alpha1.ApprovedQuota) string {
	if a == nil {
		return ""
	}
	text := ""
	for i, increase := range a.Increases {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprint(increase.ResourceType, " ", increase.Increase)
	}
	if a.Until != nil {
		text += fmt.Sprint(" until ", a.Until.Hour())
	}
	return text
}

func TestCombine(t *testing.T) {
	named := func(name string, action quotav1alpha1.QuotaRequestAction, approvals int32, approvers ...string) Rule {
		return Rule{Ref: &quotav1alpha1.RequestPolicyRef{Name: name}, Action: action, Approvals: approvals, Approvers: approvers}
	}
	about := func(r Rule, resourceTypes ...string) Rule { r.ResourceTypes = resourceTypes; return r }
	approve, ask, deny := named("approve", quotav1alpha1.ActionApprove, 0), named("ask", quotav1alpha1.ActionAsk, 0), named("deny", quotav1alpha1.ActionDeny, 0)
	two, security := named("two", quotav1alpha1.ActionAsk, 2), named("security", quotav1alpha1.ActionAsk, 1, "security", "finance")
	for name, tt := range map[string]struct {
		rules []Rule
		want  string
	}{
		"none":                             {nil, "Ask 1 []"},
		"one approves":                     {[]Rule{approve}, "Approve 0 []"},
		"about one of the types":           {[]Rule{about(approve, "maps")}, "Ask 1 []"},
		"about all of the types together":  {[]Rule{about(approve, "maps"), about(approve, "pods")}, "Approve 0 []"},
		"one asks":                         {[]Rule{approve, ask}, "Ask 1 []"},
		"one denies":                       {[]Rule{approve, two, deny}, "Deny 0 []"},
		"a group holds":                    {[]Rule{ask, security}, "Ask 1 [security finance]"},
		"two of a group":                   {[]Rule{security, two}, "Ask 2 [security finance]"},
		"the groups of both":               {[]Rule{security, named("f", quotav1alpha1.ActionAsk, 1, "finance", "sales")}, "Ask 1 [finance]"},
		"groups that have none in common ": {[]Rule{security, named("s", quotav1alpha1.ActionAsk, 1, "sales")}, "error"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Combine(tt.rules, []string{"maps", "pods"})
			text := fmt.Sprint(got.Action, " ", got.Approvals, " ", got.Approvers)
			if err != nil {
				text = "error"
			}
			if text != tt.want {
				t.Errorf("got %s (%v), want %s", text, err, tt.want)
			}
		})
	}
	if len(security.Approvers) != 2 {
		t.Errorf("a rule was changed: %+v", security)
	}
}
