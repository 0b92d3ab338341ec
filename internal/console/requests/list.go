package requests

import (
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/commandline"
	"github.com/bursar/bursar/internal/cli/request"
	"github.com/bursar/bursar/internal/console/web"
	"github.com/bursar/bursar/internal/quotarequest"
)

const (
	// readMax bounds the requests read for a page, shownMax those on it.
	readMax, shownMax = 2000, 100
	// stateAll selects requests in every state.
	stateAll = "all"
)

// row is a request in a list.
type row struct {
	Name, Namespace    string
	URL                string
	State, Class       string
	Consumer           string
	Asks               string
	Until              time.Time
	Requester          string
	Reason             string
	Message            string
	Decided            string
	Created, DecidedAt time.Time
}

func rowOf(q *quotav1alpha1.QuotaRequest) row {
	r := row{
		Name: q.Name, Namespace: q.Namespace, URL: URL(q),
		Consumer: consumerText(q.Spec.ConsumerRef), Asks: Asks(q), Requester: requesterOf(q), Reason: q.Spec.Reason,
		Message: sentence(request.Message(q)), Decided: deciders(q), Created: q.CreationTimestamp.Time, DecidedAt: request.DecidedAt(q),
	}
	r.State, r.Class = State(q)
	if q.Spec.Until != nil {
		r.Until = q.Spec.Until.Time
	}
	return r
}

func requesterOf(q *quotav1alpha1.QuotaRequest) string {
	if q.Spec.Requester == nil {
		return ""
	}
	return q.Spec.Requester.Username
}

// deciders names the last person or policy to decide on a request, with the reason.
func deciders(q *quotav1alpha1.QuotaRequest) string {
	if len(q.Status.Decisions) == 0 {
		return ""
	}
	d := q.Status.Decisions[len(q.Status.Decisions)-1]
	verb := "approved"
	if d.Decision == quotav1alpha1.DecisionDeny {
		verb = "denied"
	}
	text := deciderOf(&d) + " " + verb
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	return text
}

// deciderOf names the user or the policy of a decision.
func deciderOf(d *quotav1alpha1.RequestDecision) string {
	switch {
	case d.DecidedBy != nil:
		return d.DecidedBy.Username
	case d.PolicyRef != nil:
		return policyText(d.PolicyRef)
	case d.Decision == quotav1alpha1.DecisionApprove:
		return "Bursar"
	default:
		return "A cap of the registration"
	}
}

// listData is the data of a list of requests.
type listData struct {
	// Path is the path of the page, without [web.Base].
	Path string
	// Namespace is the selected one, or empty for all. AskNamespace reports whether the person has to name one.
	Namespace    string
	AskNamespace bool
	States       []choice
	Rows         []row
	// Others are waiting requests on which the person may not decide, with the reason as Message.
	Others []row
	// Notes describe the omissions of the page.
	Notes []string
	// Problem explains why there is no list.
	Problem string
	// EmptyNext is the suggested next step for an empty list.
	EmptyNext string
	// MayAsk reports whether the person may create requests in the namespace.
	MayAsk bool
	AskURL string
}

// choice is an option of a select.
type choice struct {
	Value, Text string
	IsSelected  bool
}

// statesOf returns the choices of states.
func statesOf(selected, first string) []choice {
	choices := []choice{{Value: "", Text: first, IsSelected: selected == ""}}
	for _, state := range request.States {
		choices = append(choices, choice{Value: state, Text: stateWords[state], IsSelected: selected == state})
	}
	return choices
}

// stateIn returns the state in the URL.
func stateIn(r *web.Request) (string, error) {
	state := r.Query("state")
	if state != "" && state != stateAll && !slices.Contains(request.States, state) {
		return "", web.Invalid(fmt.Sprintf("There is no state %q. Choose another.", state))
	}
	return state, nil
}

// readList reads requests, the newest first. Without the right to, the error is Forbidden.
func readList(r *web.Request, filter request.Filter, data *listData) ([]quotav1alpha1.QuotaRequest, error) {
	filter.ReadMax = readMax
	list, err := request.List(r.Context(), r.API(), filter)
	if err != nil {
		return nil, err
	}
	if list.Continue != "" {
		data.Notes = append(data.Notes, fmt.Sprintf("There are more than %d requests, and only that many were read. Choose a namespace, or use bursar requests.", readMax))
	}
	slices.Reverse(list.Items)
	return list.Items, nil
}

// cut bounds the items of a page. The note has the number of items on the page, and of all.
func cut[T any](d *listData, items []T, note string) []T {
	if len(items) <= shownMax {
		return items
	}
	d.Notes = append(d.Notes, fmt.Sprintf(note, shownMax, len(items)))
	return items[:shownMax]
}

// latestNote notes that a list has only the latest requests.
const latestNote = "These are the latest %d of %d requests. Choose a state or a namespace to see others."

// showList shows the requests that a person may see.
func showList(r *web.Request) (web.Answer, error) {
	state, err := stateIn(r)
	if err != nil {
		return nil, err
	}
	namespace, isKnown, err := namespaceOf(r)
	if err != nil {
		return nil, err
	}
	data := &listData{Path: "/requests", Namespace: namespace, AskNamespace: !isKnown, States: statesOf(state, "In every state")}
	page := web.Page{Template: "requests", Title: "Requests", Data: data}
	if !isKnown {
		page.Command = "bursar requests -n NAMESPACE --all"
		return page, nil
	}
	data.MayAsk = r.May(web.Right("create", "quotarequests", namespace))
	data.AskURL = web.Path("/requests/new", "namespace", namespace)
	page.Live = []web.Watch{{Resource: "quotarequests", Namespace: namespace}}
	page.Command = listCommand(namespace, state, true)
	items, err := readList(r, request.Filter{Namespace: namespace, State: state, IsAll: state == "" || state == stateAll}, data)
	if apierrors.IsForbidden(err) {
		data.Problem = forbiddenText(namespace)
		return page, nil
	}
	if err != nil {
		return nil, err
	}
	for _, item := range cut(data, items, latestNote) {
		data.Rows = append(data.Rows, rowOf(&item))
	}
	data.EmptyNext = "To ask in a namespace, you need the role bursar-tenant-admin there."
	if data.MayAsk {
		data.EmptyNext = "Ask for more with the button above."
	}
	return page, nil
}

// forbiddenText suggests how to get the right to see requests.
func forbiddenText(namespace string) string {
	return fmt.Sprintf("You may not see the requests in namespace %s. Choose another namespace, or ask an administrator to bind the role bursar-tenant-viewer to you there.", namespace)
}

// listCommand is the command for the same list.
func listCommand(namespace, state string, isAll bool) string {
	words := []string{"bursar", "requests"}
	if namespace == "" {
		words = append(words, "-A")
	} else {
		words = append(words, "-n", namespace)
	}
	switch {
	case state != "" && state != stateAll:
		words = append(words, "--state", state)
	case isAll:
		words = append(words, "--all")
	}
	return commandline.Join(words...)
}

// showInbox shows the waiting requests, the longest wait first. Those on which the person may decide come before the
// others. With a state it shows the requests in it, the latest first.
func showInbox(r *web.Request) (web.Answer, error) {
	state, err := stateIn(r)
	if err != nil {
		return nil, err
	}
	namespace, isKnown, err := namespaceOf(r)
	if err != nil {
		return nil, err
	}
	data := &listData{Path: "/inbox", Namespace: namespace, AskNamespace: !isKnown, States: statesOf(state, "Those for you to decide")}
	page := web.Page{Template: "inbox", Title: "Inbox", Data: data}
	if !isKnown {
		page.Command = "bursar requests -n NAMESPACE"
		return page, nil
	}
	page.Live = []web.Watch{{Resource: "quotarequests", Namespace: namespace}}
	page.Command = listCommand(namespace, state, state == stateAll)
	items, err := readList(r, request.Filter{Namespace: namespace, State: state, IsAll: state == stateAll}, data)
	if apierrors.IsForbidden(err) {
		data.Problem = forbiddenText(namespace)
		return page, nil
	}
	if err != nil {
		return nil, err
	}
	data.EmptyNext = "New requests appear here at once. Decided requests are in the other states."
	if state != "" {
		for _, item := range cut(data, items, latestNote) {
			data.Rows = append(data.Rows, inboxRow(&item))
		}
		return page, nil
	}
	slices.Reverse(items)
	data.addWaiting(r, items)
	return page, nil
}

// addWaiting adds waiting requests: those on which the person may decide, and the others.
func (d *listData) addWaiting(r *web.Request, items []quotav1alpha1.QuotaRequest) {
	rights := rights{}
	for i := range items {
		row := inboxRow(&items[i])
		if why := rights.whyNot(r, &items[i]); why != "" {
			row.Message = sentence(why)
			d.Others = append(d.Others, row)
			continue
		}
		d.Rows = append(d.Rows, row)
	}
	d.Rows = cut(d, d.Rows, "These are the %d of %d requests for you to decide that wait longest. The others appear as you decide.")
	d.Others = cut(d, d.Others, "These are the first %d of %d requests on which you may not decide. Choose a namespace to see others.")
}

// inboxRow returns the row of a request. It leads to the page for the decision while there is one to make.
func inboxRow(q *quotav1alpha1.QuotaRequest) row {
	r := rowOf(q)
	if !quotarequest.IsFinal(q) {
		r.URL = web.Path(inboxPath(client.ObjectKeyFromObject(q)))
	}
	return r
}

// rights are answers about the right to decide, by namespace.
type rights map[string]bool

// rightsMax bounds the namespaces for which a page asks the API server about rights.
const rightsMax = 20

// whyNot returns why a person may not decide on a request, or "".
func (known rights) whyNot(r *web.Request, q *quotav1alpha1.QuotaRequest) string {
	if why := quotarequest.MayNotDecide(q, quotav1alpha1.DecisionApprove, r.Session.User); why != "" {
		return why
	}
	if r.May(mayDecide("")) {
		return ""
	}
	may, isKnown := known[q.Namespace]
	if !isKnown && len(known) < rightsMax {
		may = r.May(mayDecide(q.Namespace))
		known[q.Namespace] = may
	} else if !isKnown {
		return "open it to see whether you may decide on it"
	}
	if !may {
		return mayNotDecideIn(q.Namespace)
	}
	return ""
}

func mayNotDecideIn(namespace string) string {
	return fmt.Sprintf("you may not decide on requests in namespace %s: ask an administrator to bind the role bursar-quota-approver to you there", namespace)
}
