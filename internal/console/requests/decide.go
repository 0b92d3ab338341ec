package requests

import (
	"fmt"
	"net/http"
	"path"
	"strconv"

	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/commandline"
	"github.com/bursar/bursar/internal/cli/request"
	"github.com/bursar/bursar/internal/console/web"
	"github.com/bursar/bursar/internal/quotarequest"
)

// decideData is the data of the page to decide a request.
type decideData struct {
	*shown
	*evidence
	// IsOwn reports whether it is the person's own request. WhyNot explains why they may not approve, and WhyNotDeny why
	// not deny.
	IsOwn              bool
	WhyNot, WhyNotDeny string
	// Form has the entered values.
	Form decideForm
	// DenyCommand is the command that denies the request.
	DenyCommand string
	// ShowURL is the page of the request for tenants, and DecideURL the target of the forms.
	ShowURL, DecideURL string
	Problem            string
}

// decideForm has the fields of both forms.
type decideForm struct {
	Amounts       []decidedAmount
	HasAmounts    bool
	Until         string
	ApproveReason string
	DenyReason    string
	UID           string
}

// decidedAmount is the field of a requested amount.
type decidedAmount struct{ Field, Type, Dimensions, Asked, Value string }

// showDecide shows a request to its deciders.
func (a Area) showDecide(r *web.Request) (web.Answer, error) {
	return a.decidePage(r, nil, "", http.StatusOK)
}

// decidePage shows a request with the forms, filled from the submitted form, if any.
func (a Area) decidePage(r *web.Request, sent *web.Request, problem string, status int) (web.Answer, error) {
	key := keyOf(r)
	s, err := readShown(r, key)
	if err != nil {
		return nil, err
	}
	data := &decideData{
		shown: s, Problem: problem, ShowURL: web.Path(requestPath(key)), DecideURL: web.Path(inboxPath(key)),
		IsOwn: quotarequest.IsOwn(s.request, r.Session.User),
	}
	if data.evidence, err = readEvidence(r, s, a.Copies); err != nil {
		return nil, err
	}
	data.WhyNot = whyNot(r, s.request, quotav1alpha1.DecisionApprove)
	data.WhyNotDeny = whyNot(r, s.request, quotav1alpha1.DecisionDeny)
	data.Form = s.form(sent)
	data.DenyCommand = commandline.Join("bursar", "deny", key.Name, "-n", key.Namespace, "--reason", or(data.Form.DenyReason, "TEXT"))
	page := web.Page{
		Template: "inbox-request", Title: "Decide on " + key.Name, Data: data, Status: status,
		Live:    []web.Watch{{Resource: "quotarequests", Namespace: key.Namespace}},
		Command: commandline.Join("kubectl", "describe", "quotarequest", key.Name, "-n", key.Namespace),
	}
	if data.WhyNot == "" {
		page.Command = s.approveCommand(&data.Form)
	}
	return page, nil
}

// whyNot returns why a person may not make a decision, or "".
func whyNot(r *web.Request, q *quotav1alpha1.QuotaRequest, decision quotav1alpha1.Decision) string {
	why := quotarequest.MayNotDecide(q, decision, r.Session.User)
	if why == "" && !r.May(mayDecide(q.Namespace)) {
		why = mayNotDecideIn(q.Namespace)
	}
	return sentence(why)
}

// amountField is the name of the field of a requested amount.
func amountField(i int) string { return "amount-" + strconv.Itoa(i) }

// form returns the forms, with the requested values or the submitted ones.
func (s *shown) form(sent *web.Request) decideForm {
	f := decideForm{UID: s.UID, HasAmounts: !s.hasDimensionsOfOneType()}
	for i := range s.Amounts {
		shown := &s.Amounts[i]
		amount := decidedAmount{Field: amountField(i), Type: shown.Type, Dimensions: shown.Dimensions, Asked: shown.Asks, Value: shown.Asks}
		if sent != nil && sent.PostForm.Has(amount.Field) {
			amount.Value = sent.Form(amount.Field)
		}
		f.Amounts = append(f.Amounts, amount)
	}
	if sent != nil {
		f.Until = sent.Form("until")
		if sent.Form("decision") == string(quotav1alpha1.DecisionDeny) {
			f.DenyReason = sent.Form("reason")
		} else {
			f.ApproveReason = sent.Form("reason")
		}
	}
	return f
}

// hasDimensionsOfOneType reports whether a request names a resource type several times. Deciders approve such requests
// as a whole.
func (s *shown) hasDimensionsOfOneType() bool {
	seen := map[string]bool{}
	for i := range s.request.Spec.Requests {
		resourceType := s.request.Spec.Requests[i].ResourceType
		if seen[resourceType] {
			return true
		}
		seen[resourceType] = true
	}
	return false
}

// decided returns the amounts to approve. It leaves out amounts as requested.
func (s *shown) decided(f *decideForm) ([]request.Amount, error) {
	var amounts []request.Amount
	for i := range f.Amounts {
		field, asked := &f.Amounts[i], &s.request.Spec.Requests[i]
		if field.Value == field.Asked {
			continue
		}
		amount, err := parseAmount(asked.ResourceType, field.Value, s.quotas.Unit(asked.ResourceType), 0)
		switch {
		case field.Value == "":
			return nil, &request.InputError{Text: fmt.Sprintf("%s: enter the amount to approve, such as %s as asked, or 0 for none of it", asked.ResourceType, field.Asked)}
		case err != nil:
			return nil, err
		case amount.IsIncrease && asked.Increase == nil:
			return nil, &request.InputError{Text: fmt.Sprintf("%s: the request asks for a limit: enter one, such as %s", asked.ResourceType, field.Asked)}
		case !amount.IsIncrease && asked.Increase != nil:
			return nil, &request.InputError{Text: fmt.Sprintf("%s: the request asks for an increase: enter one with a plus, such as %s", asked.ResourceType, field.Asked)}
		case amount.Value > quotarequest.AmountOf(asked):
			return nil, &request.InputError{Text: fmt.Sprintf("%s: %s is more than the request asks for, %s", asked.ResourceType, field.Value, field.Asked)}
		case amount.Value != quotarequest.AmountOf(asked):
			amounts = append(amounts, amount)
		}
	}
	return amounts, nil
}

// approveCommand is the command for the approval in the form.
func (s *shown) approveCommand(f *decideForm) string {
	words := []string{"bursar", "approve", s.Name, "-n", s.Namespace}
	amounts, err := s.decided(f)
	if err == nil {
		for _, amount := range amounts {
			amount.Type = path.Base(amount.Type)
			words = append(words, amount.String())
		}
	}
	if f.Until != "" {
		words = append(words, "--until", f.Until)
	}
	if f.ApproveReason != "" {
		words = append(words, "--reason", f.ApproveReason)
	}
	return commandline.Join(words...)
}

// decide makes a decision.
func (a Area) decide(r *web.Request) (web.Answer, error) {
	key := keyOf(r)
	decision, after, err := makeDecision(r, key)
	if err == nil && !request.Counts(after, decision) && quotarequest.IsDecided(after) {
		text := "Somebody else decided first, and your decision does not count. " + stateText(after)
		return a.decidePage(r, r, text, http.StatusConflict)
	}
	if err != nil {
		text, status, other := problemOf(err)
		if other != nil || status == http.StatusNotFound {
			return nil, err
		}
		if status == http.StatusForbidden && isTooLate(r, key) {
			status = http.StatusConflict
		}
		return a.decidePage(r, r, text, status)
	}
	verb := "approved"
	if decision.Spec.Decision == quotav1alpha1.DecisionDeny {
		verb = "denied"
	}
	return web.Redirect{To: inboxPath(key), Notice: fmt.Sprintf("You %s QuotaRequest %s. %s", verb, key, stateText(after))}, nil
}

// isTooLate reports whether the API server denied a decision because somebody else had decided.
func isTooLate(r *web.Request, key client.ObjectKey) bool {
	now := &quotav1alpha1.QuotaRequest{}
	if err := r.API().Get(r.Context(), key, now); err != nil {
		return false
	}
	return quotarequest.IsDecided(now) && !quotarequest.IsOwn(now, r.Session.User) && r.May(mayDecide(key.Namespace))
}

// makeDecision makes the decision in the form.
func makeDecision(r *web.Request, key client.ObjectKey) (*quotav1alpha1.QuotaDecision, *quotav1alpha1.QuotaRequest, error) {
	s, err := readShown(r, key)
	if err != nil {
		return nil, nil, err
	}
	if r.Form("uid") != s.UID {
		return nil, nil, &web.StatusError{Status: http.StatusConflict, Message: "There is another request of that name now. Look at it, and decide again. Nothing was changed."}
	}
	o := request.DecideOptions{Request: key, UID: s.request.UID, Decision: quotav1alpha1.Decision(r.Form("decision")), Reason: r.Form("reason")}
	f := s.form(r)
	switch o.Decision {
	case quotav1alpha1.DecisionDeny:
		if o.Reason == "" {
			return nil, nil, &request.InputError{Text: "Enter a reason for the denial: the requester reads it"}
		}
	case quotav1alpha1.DecisionApprove:
		if o.Amounts, err = s.decided(&f); err != nil {
			return nil, nil, err
		}
		if o.Until, err = parseUntil(f.Until); err != nil {
			return nil, nil, err
		}
	default:
		return nil, nil, &request.InputError{Text: "Choose to approve or to deny"}
	}
	return request.Decide(r.Context(), r.API(), o)
}
