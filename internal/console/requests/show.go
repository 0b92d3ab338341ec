package requests

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/cli/commandline"
	"github.com/bursar/bursar/internal/cli/request"
	"github.com/bursar/bursar/internal/console/overview"
	"github.com/bursar/bursar/internal/console/web"
	"github.com/bursar/bursar/internal/quotarequest"
)

// shown is one request, as the pages of tenants and approvers show it.
type shown struct {
	row
	UID string
	// Amounts are the requested amounts.
	Amounts []shownAmount
	// Policy names the rule that applies, and Approvers the deciders.
	Policy, Approvers string
	Expires           time.Time
	Decisions         []shownDecision
	WithdrawnBy       string
	// Grant is the ResourceGrant of an approval, with its state, and GrantEnds its end.
	Grant, GrantState string
	GrantEnds         time.Time

	request *quotav1alpha1.QuotaRequest
	quotas  *quotas
}

// shownAmount is a requested amount.
type shownAmount struct {
	Type, Dimensions string
	// Asks is the wanted limit, or with a plus the increase. Approved is the granted increase, or empty.
	Asks, Approved string
	// IsBase reports an unknown display unit: Asks is then in base units.
	IsBase bool
}

// shownDecision is a decision on a request.
type shownDecision struct {
	By, Decision, Amounts, Reason string
	Until, At                     time.Time
}

// readShown reads a request with the quota of its consumer, its decisions and its grant. It omits what the person may
// not read.
func readShown(r *web.Request, key client.ObjectKey) (*shown, error) {
	if err := web.CheckNamespace(key.Namespace); err != nil {
		return nil, err
	}
	if len(validation.IsDNS1123Subdomain(key.Name)) > 0 {
		return nil, web.Invalid(fmt.Sprintf("%q is not a valid name of a request: names have lower-case letters, digits, dots and dashes.", key.Name))
	}
	q := &quotav1alpha1.QuotaRequest{}
	if err := r.API().Get(r.Context(), key, q); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, &web.StatusError{Status: http.StatusNotFound, Message: fmt.Sprintf("There is no QuotaRequest %s in namespace %s.", key.Name, key.Namespace)}
		}
		if apierrors.IsForbidden(err) {
			return nil, &web.StatusError{Status: http.StatusForbidden, Message: forbiddenText(key.Namespace)}
		}
		return nil, err
	}
	s := &shown{row: rowOf(q), UID: string(q.UID), request: q, Policy: policyText(q.Status.PolicyRef), Approvers: approversText(q)}
	if q.Status.ExpiresAt != nil && !quotarequest.IsFinal(q) {
		s.Expires = q.Status.ExpiresAt.Time
	}
	if by := q.Spec.WithdrawnBy; by != nil {
		s.WithdrawnBy = by.Username
	}
	var err error
	if s.quotas, err = readQuotas(r.Context(), r.API(), key.Namespace, overview.ReferenceTo(q.Spec.ConsumerRef)); err != nil {
		return nil, err
	}
	s.amounts()
	return s, errors.Join(s.readDecisions(r), s.readGrant(r))
}

// amounts fills the requested and the granted amounts.
func (s *shown) amounts() {
	var increases []quotav1alpha1.ApprovedIncrease
	if approved := s.request.Status.Approved; approved != nil {
		increases = approved.Increases
	}
	for i := range s.request.Spec.Requests {
		asked := &s.request.Spec.Requests[i]
		amount := shownAmount{
			Type: asked.ResourceType, Dimensions: message.Dimensions(asked.Dimensions), Asks: s.askedText(asked),
			IsBase: s.quotas.Unit(asked.ResourceType).Name == "",
		}
		for _, increase := range increases {
			if increase.ResourceType == asked.ResourceType && message.Dimensions(increase.Dimensions) == amount.Dimensions {
				amount.Approved = "+" + s.quotas.Unit(asked.ResourceType).Amount(increase.Increase)
			}
		}
		s.Amounts = append(s.Amounts, amount)
	}
}

// askedText writes a requested amount in the form of an input.
func (s *shown) askedText(asked *quotav1alpha1.RequestedQuota) string {
	return amountText(request.Amount{Type: asked.ResourceType, Value: quotarequest.AmountOf(asked), IsIncrease: asked.Increase != nil}, s.quotas)
}

// policyText names the rule of a policy.
func policyText(ref *quotav1alpha1.RequestPolicyRef) string {
	switch {
	case ref == nil:
		return ""
	case ref.Rule == "":
		return "QuotaRequestPolicy " + ref.Name
	default:
		return fmt.Sprintf("QuotaRequestPolicy %s, rule %s", ref.Name, ref.Rule)
	}
}

// approversText names the deciders of a waiting request.
func approversText(q *quotav1alpha1.QuotaRequest) string {
	if q.Status.ApprovalsNeeded == 0 {
		return ""
	}
	text := "Everybody with the right to create QuotaDecisions in this namespace"
	if groups := q.Status.Approvers; len(groups) > 0 {
		text = "Members of a group: "
		for i, group := range groups {
			if i > 0 {
				text += ", "
			}
			text += group
		}
	}
	if q.Status.ApprovalsNeeded > 1 {
		text += fmt.Sprintf("; %d people must approve", q.Status.ApprovalsNeeded)
	}
	return text
}

// readDecisions fills the decisions that count. Their amounts are in the QuotaDecisions.
func (s *shown) readDecisions(r *web.Request) error {
	if len(s.request.Status.Decisions) == 0 {
		return nil
	}
	var list quotav1alpha1.QuotaDecisionList
	err := r.API().List(r.Context(), &list, client.InNamespace(s.Namespace), client.MatchingFields{"spec.requestRef.name": s.Name})
	if err != nil && !apierrors.IsForbidden(err) {
		return fmt.Errorf("list the decisions on %s: %w", s.Name, err)
	}
	for i := range s.request.Status.Decisions {
		d := &s.request.Status.Decisions[i]
		line := shownDecision{By: deciderOf(d), Decision: "approved", Reason: d.Reason, At: d.DecidedAt.Time}
		if d.Decision == quotav1alpha1.DecisionDeny {
			line.Decision = "denied"
		}
		for j := range list.Items {
			made := &list.Items[j]
			if string(s.request.UID) == made.Spec.RequestRef.UID && isSame(d, made) {
				line.Amounts = s.decidedText(made)
				if made.Spec.Until != nil {
					line.Until = made.Spec.Until.Time
				}
				break
			}
		}
		s.Decisions = append(s.Decisions, line)
	}
	return nil
}

// isSame reports whether a decision in the status of a request is a QuotaDecision on it.
func isSame(d *quotav1alpha1.RequestDecision, made *quotav1alpha1.QuotaDecision) bool {
	return quotarequest.IsSameUser(d.DecidedBy, made.Spec.DecidedBy) && d.Decision == made.Spec.Decision
}

// decidedText writes the approved amounts, or nothing if they are those of the request.
func (s *shown) decidedText(d *quotav1alpha1.QuotaDecision) string {
	text := ""
	for i, decided := range d.Spec.Amounts {
		if i >= len(s.request.Spec.Requests) {
			break
		}
		asked := s.request.Spec.Requests[i]
		if text != "" {
			text += ", "
		}
		amount := request.Amount{Type: decided.ResourceType, Value: decided.Amount, IsIncrease: asked.Increase != nil}
		text += decided.ResourceType + ": " + amountText(amount, s.quotas)
	}
	return text
}

// readGrant fills the state of the grant.
func (s *shown) readGrant(r *web.Request) error {
	approved := s.request.Status.Approved
	if approved == nil {
		return nil
	}
	if approved.Until != nil {
		s.GrantEnds = approved.Until.Time
	}
	if s.Grant = approved.Grant; s.Grant == "" {
		return nil
	}
	grant := &quotav1alpha1.ResourceGrant{}
	err := r.API().Get(r.Context(), client.ObjectKey{Namespace: s.Namespace, Name: s.Grant}, grant)
	switch {
	case apierrors.IsForbidden(err):
		s.GrantState = "You may not see it."
	case apierrors.IsNotFound(err) && approved.GrantWaits:
		s.GrantState = "It cannot be made yet."
	case apierrors.IsNotFound(err):
		s.GrantState = "It does not exist: it was deleted, or it is being made."
	case err != nil:
		return fmt.Errorf("read ResourceGrant %s: %w", s.Grant, err)
	default:
		s.GrantState = "It does not count yet."
		if c := apimeta.FindStatusCondition(grant.Status.Conditions, quotav1alpha1.ConditionActive); c != nil && c.Status == metav1.ConditionTrue {
			s.GrantState = "It counts."
		} else if c != nil {
			s.GrantState = "It does not count: " + sentence(c.Message)
		}
	}
	return nil
}

// showData is the data of the page of a request.
type showData struct {
	*shown
	MayWithdraw bool
	// DecideURL leads to the decision, if the person may decide.
	DecideURL string
	AskURL    string
	// WithdrawCommand is the command to withdraw it.
	WithdrawCommand string
	Problem         string
}

// showRequest shows a request.
func showRequest(r *web.Request) (web.Answer, error) { return requestPage(r, "", http.StatusOK) }

func requestPage(r *web.Request, problem string, status int) (web.Answer, error) {
	key := keyOf(r)
	s, err := readShown(r, key)
	if err != nil {
		return nil, err
	}
	data := &showData{shown: s, Problem: problem}
	isOpen := !quotarequest.IsFinal(s.request)
	data.MayWithdraw = isOpen && !s.request.Spec.Withdrawn && r.May(web.Right("patch", "quotarequests", key.Namespace))
	if isOpen && !quotarequest.IsOwn(s.request, r.Session.User) && r.May(mayDecide(key.Namespace)) {
		data.DecideURL = web.Path(inboxPath(key))
	}
	if r.May(web.Right("create", "quotarequests", key.Namespace)) {
		first := s.Amounts[0]
		data.AskURL = web.Path("/requests/new", "namespace", key.Namespace, "consumer", overview.ReferenceTo(s.request.Spec.ConsumerRef),
			"type", first.Type, "amount", first.Asks, "reason", s.Reason)
	}
	data.WithdrawCommand = commandline.Join("bursar", "request", "--withdraw", key.Name, "-n", key.Namespace)
	return web.Page{
		Template: "request", Title: "Request " + key.Name, Data: data, Status: status, Live: []web.Watch{{Resource: "quotarequests", Namespace: key.Namespace}},
		Command: commandline.Join("kubectl", "describe", "quotarequest", key.Name, "-n", key.Namespace),
	}, nil
}

// withdraw withdraws a request. The form has to repeat its name.
func withdraw(r *web.Request) (web.Answer, error) {
	key := keyOf(r)
	err := web.Confirmed(r, key.Name)
	if err == nil {
		err = request.Withdraw(r.Context(), r.API(), key)
	}
	if err != nil {
		text, status, other := problemOf(err)
		if other != nil || status == http.StatusNotFound {
			return nil, err
		}
		return requestPage(r, text, status)
	}
	return web.Redirect{To: requestPath(key), Notice: fmt.Sprintf("You withdrew QuotaRequest %s.", key)}, nil
}
