package e2e

import (
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/test/await"
)

// requestHome is the namespace with the quota of the tests' consumers.
const requestHome = config.DefaultSystemNamespace

// asking is a world with a tenant who may ask, and two approvers.
type asking struct {
	*world
	tom, ann, bob *browser
}

// newAsking makes persons with the roles of tenants and approvers, and logs them in.
func newAsking(t *testing.T, limit int64) *asking {
	t.Helper()
	a := &asking{world: newProtectedWorld(t, limit)}
	a.bind(a.name+"-tom", "bursar-tenant-admin", requestHome)
	a.bind(a.name+"-ann", "bursar-quota-approver", "")
	a.bind(a.name+"-bob", "bursar-quota-approver", requestHome)
	a.waitMay(a.name+"-tom", attributesOf("quotarequests.quota.miloapis.com", "create", requestHome))
	a.waitMay(a.name+"-ann", attributesOf("quotadecisions.quota.miloapis.com", "create", ""))
	a.waitMay(a.name+"-bob", attributesOf("quotadecisions.quota.miloapis.com", "create", requestHome))
	a.tom, a.ann, a.bob = a.person("tom"), a.person("ann"), a.person("bob")
	a.tom.waitPage("/quota?namespace="+requestHome+"&consumer=Organization/"+a.name, a.resourceType())
	return a
}

func (a *asking) person(name string) *browser {
	return browse(a.T, rest.ImpersonationConfig{UserName: a.name + "-" + name}, requestHome)
}

// ask asks in the browser, and returns the name of the request.
func (a *asking) ask(amount, reason string) string {
	a.Helper()
	status, page := a.tom.send("/requests/new", "/requests/new", url.Values{
		"namespace": {requestHome}, "consumer": {"organization/" + a.name}, "type": {a.resourceType()}, "amount": {amount}, "reason": {reason},
	})
	if status != http.StatusOK {
		a.Fatalf("tom cannot ask: %d\n%s", status, page)
	}
	name, _, _ := strings.Cut(nameIn(a.T, page), ".")
	return name
}

func (a *asking) request(name string) *quotav1alpha1.QuotaRequest {
	a.Helper()
	request := &quotav1alpha1.QuotaRequest{}
	must(a, admin.Get(a.ctx, client.ObjectKey{Namespace: requestHome, Name: name}, request))
	return request
}

// decide sends a decision of a person. The fields come in pairs of name and value.
func (a *asking) decide(by *browser, name, decision string, fields ...string) (status int, page string) {
	a.Helper()
	form := url.Values{"decision": {decision}, "uid": {string(a.request(name).UID)}}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	to := "/inbox/" + requestHome + "/" + name
	return by.send("/requests/new", to, form)
}

func (a *asking) wantAnswer(what string, status int, page string, want int, texts ...string) {
	a.Helper()
	if status != want {
		a.Fatalf("%s: %d, want %d\n%s", what, status, want, page)
	}
	for _, text := range texts {
		if !strings.Contains(page, text) {
			a.Errorf("%s: the page has no %q\n%s", what, text, page)
		}
	}
}

// Tom is denied, pastes the denial, and asks. Ann approves less. Tom sees it, and may use it.
func TestConsoleRequests(t *testing.T) {
	t.Parallel()
	a := newAsking(t, 1)
	a.mustCreate(a.configMap("a"))
	denial := a.wantExceeded(a.configMap("b"))

	status, page := a.tom.send("/requests/new", "/requests/denial", url.Values{"denial": {"Error from server (Forbidden): " + denial}})
	a.wantAnswer("the denial", status, page, http.StatusOK, `value="`+a.resourceType()+`"`, `value="&#43;1 map"`, `value="Organization/`+a.name+`"`, "configmaps is in map")
	name := a.ask("5 maps", "a release")
	path := requestHome + "/" + name
	a.waitState(a.request(name), quotav1alpha1.ReasonPending)
	a.tom.wantPage("/requests?namespace="+requestHome, name, "Organization "+a.name, "configmaps=5 maps", "Waits for a decision")
	a.tom.wantPage("/requests/"+path, "a release", "Waits for a decision.", "bursar request --withdraw "+name, "kubectl describe quotarequest "+name)
	if page := a.tom.wantPage("/inbox?namespace="+requestHome, "Waiting for other approvers", "Nobody decides on a request of their own."); strings.Contains(page, `aria-current="page">Inbox`) {
		t.Error("the menu has the inbox for tom, who decides nothing")
	}

	a.ann.wantPage("/inbox", `aria-current="page">Inbox`, name, "a release")
	a.bob.wantPage("/inbox", `aria-current="page">Inbox`, name)
	a.ann.waitPage("/inbox/"+path, "1 map of 1 map (100%)", "Limit if approved in full</dt><dd>5 maps", "and 1 map more now.", "No cap or ceiling is known.", "There are none on the same consumer")
	status, page = a.decide(a.ann, name, "Approve", "amount-0", "3 maps", "until", "2090-01-31", "reason", "for now")
	a.wantAnswer("the approval", status, page, http.StatusOK, "You approved QuotaRequest "+path, "State: Approved in part. ", "Approved in part", "3 maps", "2090-01-31 00:00 UTC", "for now")
	a.tom.wantPage("/requests/"+path, "Approved in part", a.name+"-ann", "for now", "request-"+string(a.request(name).UID), "It counts.", "&#43;2 maps")
	a.tom.wantPage("/requests?namespace="+requestHome+"&state=PartiallyApproved", name, a.name+"-ann approved: for now")
	a.mustCreate(a.configMap("b"))
	a.mustCreate(a.configMap("c"))
	a.wantExceeded(a.configMap("d"))

	// The next one is denied, and knows of the one before.
	second := a.ask("+9", "more")
	a.waitState(a.request(second), quotav1alpha1.ReasonPending)
	a.ann.waitPage("/inbox/"+requestHome+"/"+second, name, a.name+"-ann approved: for now", "Limit if approved in full</dt><dd>12 maps")
	status, page = a.decide(a.ann, second, "Deny", "reason", " ")
	a.wantAnswer("a denial without a reason", status, page, http.StatusUnprocessableEntity, "Enter a reason for the denial: the requester reads it.")
	status, page = a.decide(a.ann, second, "Deny", "reason", "not this year")
	a.wantAnswer("the denial", status, page, http.StatusOK, "State: Denied.")
	a.tom.wantPage("/requests/"+requestHome+"/"+second, "Denied", "not this year")
}

// Nobody decides on a request of their own, and without the right, nobody decides at all.
func TestConsoleRequestsOfOthers(t *testing.T) {
	t.Parallel()
	a := newAsking(t, 1)
	a.bind(a.name+"-tom", "bursar-quota-approver", "") // both roles
	a.bind(a.name+"-eve", "bursar-tenant-viewer", requestHome)
	a.waitMay(a.name+"-tom", attributesOf("quotadecisions.quota.miloapis.com", "create", ""))
	a.waitMay(a.name+"-eve", attributesOf("quotarequests.quota.miloapis.com", "list", requestHome))
	eve := a.person("eve")
	name := a.ask("5", "a release")
	path := "/inbox/" + requestHome + "/" + name
	a.waitState(a.request(name), quotav1alpha1.ReasonPending)

	if page := a.tom.wantPage(path, "This is your own request."); strings.Contains(page, `name="decision"`) {
		t.Error("tom has a form for a request of his own")
	}
	if page := eve.wantPage(path, "You may not decide on requests in namespace "+requestHome); strings.Contains(page, `name="decision"`) {
		t.Error("eve has a form for what she may not do")
	}
	if page := eve.wantPage("/requests/" + requestHome + "/" + name); strings.Contains(page, "/withdraw") {
		t.Error("eve has a form to withdraw a request")
	}
	for who, by := range map[string]*browser{"tom": a.tom, "eve": eve} {
		for _, decision := range []string{"Approve", "Deny"} {
			status, page := a.decide(by, name, decision, "reason", "why not")
			a.wantAnswer(who+" decides", status, page, http.StatusForbidden, "Nothing was changed.")
		}
	}
	status, page := eve.send("/requests/new", "/requests/"+requestHome+"/"+name+"/withdraw", url.Values{"confirm": {name}})
	a.wantAnswer("eve withdraws", status, page, http.StatusForbidden, "Nothing was changed.")
	status, page = eve.send("/requests/new", "/requests/new", url.Values{
		"namespace": {requestHome}, "consumer": {"organization/" + a.name}, "type": {a.resourceType()}, "amount": {"7"}, "reason": {"me too"},
	})
	a.wantAnswer("eve asks", status, page, http.StatusForbidden, "Nothing was changed.", "me too", `value="7"`)
	if status, page := eve.get("/requests/default/none"); status != http.StatusForbidden {
		t.Errorf("a request of another namespace: %d\n%s", status, page)
	}
	eve.wantPage("/requests?namespace=default", "You may not see the requests in namespace default.")
	if request := a.request(name); len(request.Status.Decisions) > 0 || request.Spec.Withdrawn {
		t.Errorf("the request has changed: %+v", request)
	}
}

// Of two approvers at once, the second learns that the first has decided.
func TestConsoleRequestsDecidedTwice(t *testing.T) {
	t.Parallel()
	a := newAsking(t, 1)
	name := a.ask("5", "a release")
	a.waitState(a.request(name), quotav1alpha1.ReasonPending)
	type answer struct {
		status int
		page   string
	}
	answers := make(chan answer, 2)
	for _, by := range []*browser{a.ann, a.bob} {
		go func() {
			status, page := a.decide(by, name, "Approve", "amount-0", "4", "reason", "fine")
			answers <- answer{status, page}
		}()
	}
	accepted := 0
	for range 2 {
		// Both count if Bursar saw both at once: each approved the same.
		got := await.Receive(t, soon, answers)
		if got.status == http.StatusOK {
			accepted++
			continue
		}
		a.wantAnswer("the second approval", got.status, got.page, http.StatusConflict, `role="alert"`)
	}
	if made := a.request(name).Status.Decisions; accepted == 0 || len(made) != accepted {
		t.Errorf("%d approvals were accepted, and these count: %+v", accepted, made)
	}
	status, page := a.decide(a.bob, name, "Deny", "reason", "no")
	a.wantAnswer("a late denial", status, page, http.StatusConflict, "the request is decided", "Nothing was changed.")
	status, page = a.tom.send("/requests/new", "/requests/"+requestHome+"/"+name+"/withdraw", url.Values{"confirm": {name}})
	a.wantAnswer("a late withdrawal", status, page, http.StatusConflict, "is decided already", "Nothing was changed.")
	a.wantBucket(4, 0, 4, 0)

	// Somebody looked at another request of that name.
	third := a.ask("9", "a release")
	status, page = a.ann.send("/requests/new", "/inbox/"+requestHome+"/"+third, url.Values{"decision": {"Approve"}, "uid": {"another"}})
	a.wantAnswer("a decision on another request", status, page, http.StatusConflict, "There is another request of that name now.")
}

// Tom withdraws a request by its name.
func TestConsoleRequestWithdrawn(t *testing.T) {
	t.Parallel()
	a := newAsking(t, 1)
	name := a.ask("5", "a release")
	path := "/requests/" + requestHome + "/" + name
	for _, wrong := range []string{"", "another", strings.ToUpper(name)} {
		status, page := a.tom.send("/requests/new", path+"/withdraw", url.Values{"confirm": {wrong}})
		a.wantAnswer("a wrong name", status, page, http.StatusUnprocessableEntity, "Enter the name "+name+" to confirm.")
	}
	if a.request(name).Spec.Withdrawn {
		t.Fatal("the request was withdrawn without its name")
	}
	status, page := a.tom.send("/requests/new", path+"/withdraw", url.Values{"confirm": {name}})
	a.wantAnswer("the withdrawal", status, page, http.StatusOK, "You withdrew QuotaRequest "+requestHome+"/"+name)
	request := a.request(name)
	a.waitState(request, quotav1alpha1.ReasonWithdrawn)
	a.tom.wantPage(path, "Withdrawn by</dt><dd>"+a.name+"-tom")
	status, page = a.tom.send("/requests/new", "/requests/"+requestHome+"/none/withdraw", url.Values{"confirm": {"none"}})
	a.wantAnswer("what there is not", status, page, http.StatusNotFound)
}

// The console names invalid input, and keeps all input.
func TestConsoleRequestsInvalid(t *testing.T) {
	t.Parallel()
	a := newAsking(t, 1)
	valid := map[string]string{"namespace": requestHome, "consumer": "organization/" + a.name, "type": a.resourceType(), "amount": "5", "reason": "a reason of mine"}
	for what, tt := range map[string]struct{ field, value, want string }{
		"no amount":           {"amount", "", "Each amount needs its resource type, and each resource type its amount."},
		"no number":           {"amount", "a lot", "is not an amount such as 1 map."},
		"another unit":        {"amount", "5 GiB", "has an unknown unit: give an amount such as 1 map."},
		"nothing":             {"amount", "0", "is too small: give at least 1 map."},
		"a part":              {"amount", "1.5 maps", "is not a whole number of base units."},
		"too much":            {"amount", "9999999999999999999", "is too large"},
		"negative":            {"amount", "-5", "is not an amount such as"},
		"no type":             {"type", "", "Each amount needs its resource type"},
		"an unknown type":     {"type", "castles", "has no active ResourceRegistration"},
		"no reason":           {"reason", "", "Enter a reason"},
		"no consumer":         {"consumer", "", "Enter the consumer as KIND/NAME"},
		"no kind":             {"consumer", "acme", "is not KIND/NAME"},
		"an unknown consumer": {"consumer", "organization/nobody-of-that-name", "is not known in namespace"},
		"a past end":          {"until", "2001-01-01", "is over"},
		"no date":             {"until", "soon", "is neither a date such as 2027-03-31"},
		"wrong dimensions":    {"dimensions", "eu", "is not KEY=VALUE"},
		"a limit of a part":   {"dimensions", "region=eu", "with --dimension, ask for an increase"},
		"no namespace":        {"namespace", "", "Enter the namespace"},
	} {
		form := url.Values{}
		for field, value := range valid {
			form.Set(field, value)
		}
		form.Set(tt.field, tt.value)
		status, page := a.tom.send("/requests/new", "/requests/new", form)
		a.wantAnswer(what, status, page, http.StatusUnprocessableEntity, html.EscapeString(tt.want), `role="alert"`)
		if tt.field != "reason" && !strings.Contains(page, "a reason of mine") {
			t.Errorf("%s: the reason is lost", what)
		}
		if tt.value != "" && !strings.Contains(html.UnescapeString(page), `value="`+tt.value+`"`) {
			t.Errorf("%s: the value is lost\n%s", what, page)
		}
	}
	status, page := a.tom.send("/requests/new", "/requests/denial", url.Values{"denial": {"nothing is wrong"}})
	a.wantAnswer("no denial", status, page, http.StatusUnprocessableEntity, "No denial in", "nothing is wrong</textarea>")

	// Another row for another resource type.
	status, page = a.tom.send("/requests/new", "/requests/new", url.Values{"namespace": {requestHome}, "type": {"a/b"}, "amount": {"3"}, "add": {"amount"}})
	a.wantAnswer("one more", status, page, http.StatusOK, `value="a/b"`)
	if got := strings.Count(page, `name="type"`); got != 2 {
		t.Errorf("the form has %d resource types, want 2", got)
	}

	name := a.ask("5", "a release")
	a.waitState(a.request(name), quotav1alpha1.ReasonPending)
	for what, tt := range map[string]struct{ field, value, want string }{
		"more than asked for": {"amount-0", "6", "is more than the request asks for"},
		"nothing":             {"amount-0", "0", "approves nothing: deny the request instead"},
		"no number":           {"amount-0", "a few", "is not an amount such as 1 map."},
		"no amount":           {"amount-0", "", "enter the amount to approve, such as 5 maps as asked"},
		"an increase":         {"amount-0", "+3", "the request asks for a limit: enter one, such as 5 maps"},
		"a past end":          {"until", "2001-01-01", ""},
		"no date":             {"until", "soon", "is neither a date"},
	} {
		status, page := a.decide(a.ann, name, "Approve", tt.field, tt.value)
		a.wantAnswer(what, status, html.UnescapeString(page), http.StatusUnprocessableEntity, tt.want, `value="`+tt.value+`"`)
	}
	eventually(t, func() error { // times of creation have seconds only
		if created := a.request(name).CreationTimestamp; time.Now().Unix() == created.Unix() {
			return errors.New("the next request would be as old")
		}
		return nil
	})
	increase := a.ask("+5", "another release")
	a.waitState(a.request(increase), quotav1alpha1.ReasonPending)
	status, page = a.decide(a.ann, increase, "Approve", "amount-0", "3")
	a.wantAnswer("a limit", status, html.UnescapeString(page), http.StatusUnprocessableEntity, "asks for an increase: enter one with a plus, such as +5 maps")
	if page := a.ann.wantPage("/inbox", name, increase); strings.Index(page, name) > strings.Index(page, increase) {
		t.Error("the inbox does not begin with the request that waits longest")
	}
	status, page = a.decide(a.ann, name, "Perhaps")
	a.wantAnswer("no decision", status, page, http.StatusUnprocessableEntity, "Choose to approve or to deny.")
	if made := a.request(name).Status.Decisions; len(made) > 0 {
		t.Errorf("the request has decisions: %+v", made)
	}
}

// Markup in people's input is text, on every page.
func TestConsoleRequestsMarkup(t *testing.T) {
	t.Parallel()
	a := newAsking(t, 1)
	const markup = `"><img src=x onerror=alert(1)><script>alert(2)</script>`
	requester := a.name + markup
	request := a.newRequest("markup", 5)
	request.Spec.Reason = markup
	must(t, namedAdmin(t, requester).Create(a.ctx, request))
	a.waitState(request, quotav1alpha1.ReasonPending)
	path := requestHome + "/" + request.Name
	clean := func(where string, page string) {
		t.Helper()
		if strings.Contains(page, "<img") || strings.Contains(page, "<script>") || strings.Contains(page, `onerror=alert(1)>`) {
			t.Errorf("%s: markup is markup\n%s", where, page)
		}
	}
	escaped := html.EscapeString("<script>")
	for _, url := range []string{"/requests", "/requests/" + path, "/inbox/" + path, "/inbox", "/inbox?state=all"} {
		clean(url, a.ann.wantPage(url, escaped))
	}
	hostile := url.QueryEscape(markup)
	clean("the form", a.tom.wantPage(fmt.Sprintf("/requests/new?namespace=%[1]s&consumer=%[1]s&type=%[1]s&amount=%[1]s&reason=%[1]s&until=%[1]s&dimensions=%[1]s", hostile), escaped))
	for _, url := range []string{"/requests?namespace=" + hostile, "/requests?state=" + hostile, "/inbox?namespace=" + hostile, "/requests/" + url.PathEscape(markup) + "/x", "/inbox/x/" + url.PathEscape(markup)} {
		_, page := a.tom.get(url)
		clean(url, page)
	}
	_, page := a.tom.send("/requests/new", "/requests/denial", url.Values{"denial": {markup}})
	clean("a denial", page)
	_, page = a.tom.send("/requests/new", "/requests/denial", url.Values{"denial": {"bursar request a=" + markup + " --for x/y -n z --reason"}})
	clean("a denial with a command", page)
	status, page := a.decide(a.bob, request.Name, "Deny", "reason", markup)
	a.wantAnswer("a denial with markup", status, page, http.StatusOK, escaped)
	clean("the decision", page)
	clean("the list", a.ann.wantPage("/requests?state=Denied", escaped))
}

// Tom's page refreshes after the decision on the request.
func TestConsoleRequestsLive(t *testing.T) {
	t.Parallel()
	a := newAsking(t, 1)
	name := a.ask("5", "a release")
	a.waitState(a.request(name), quotav1alpha1.ReasonPending)
	page := a.tom.wantPage("/requests/"+requestHome+"/"+name, `id="live"`)
	_, rest, _ := strings.Cut(page, `data-live="`)
	stream, _, _ := strings.Cut(rest, `"`)
	response, err := a.tom.client.Get(a.tom.base + html.UnescapeString(stream))
	must(t, err)
	defer response.Body.Close()
	changed := make(chan struct{})
	go func() {
		buffer, text := make([]byte, 1024), ""
		for !strings.Contains(text, "event: changed") {
			n, err := response.Body.Read(buffer)
			if err != nil {
				return
			}
			text += string(buffer[:n])
		}
		close(changed)
	}()
	n := 0
	eventually(t, func() error { // the first changes may come before the watch begins
		n++
		request := a.request(name)
		change(t, request, func(r *quotav1alpha1.QuotaRequest) { r.Annotations = map[string]string{"test/change": strconv.Itoa(n)} })
		select {
		case <-changed:
			return nil
		default:
			return errors.New("the page is not renewed")
		}
	})
}
