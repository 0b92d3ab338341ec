package requests

import (
	"cmp"
	"strings"
	"unicode"
	"unicode/utf8"

	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/request"
	"github.com/bursar/bursar/internal/console/web"
)

// sentence returns a text with a capital letter and a full stop.
func sentence(text string) string {
	text = strings.TrimSpace(text)
	first, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return ""
	}
	// The name of a resource type or of an object stays as it is.
	if word, _, _ := strings.Cut(text, " "); !strings.ContainsAny(word, "/=.-:") {
		text = string(unicode.ToUpper(first)) + text[size:]
	}
	if strings.HasSuffix(text, ".") || strings.HasSuffix(text, "?") {
		return text
	}
	return text + "."
}

// consumerText names a consumer for people.
func consumerText(ref quotav1alpha1.ConsumerRef) string {
	text := ref.Kind + " " + ref.Name
	if ref.Namespace != "" {
		text += " in namespace " + ref.Namespace
	}
	return text
}

// Asks returns the requested amounts of a request, in display units. They are known once Bursar has evaluated the
// request.
func Asks(q *quotav1alpha1.QuotaRequest) string {
	return cmp.Or(q.Status.Asks, "being evaluated")
}

// State returns the state of a request for people, and its class of console.css.
func State(q *quotav1alpha1.QuotaRequest) (word, class string) {
	state := request.State(q)
	return cmp.Or(stateWords[state], state), stateClasses[state]
}

// stateText returns the state of a request, as sentences.
func stateText(q *quotav1alpha1.QuotaRequest) string {
	word, _ := State(q)
	return strings.TrimSpace("State: " + word + ". " + sentence(request.Message(q)))
}

// URL returns the page of a request.
func URL(q *quotav1alpha1.QuotaRequest) string {
	return web.Path(requestPath(client.ObjectKeyFromObject(q)))
}

// stateWords are the states of requests for people.
var stateWords = map[string]string{
	"":                                    "New",
	quotav1alpha1.ReasonPending:           "Waits for a decision",
	quotav1alpha1.ReasonApproved:          "Approved",
	quotav1alpha1.ReasonPartiallyApproved: "Approved in part",
	quotav1alpha1.ReasonDenied:            "Denied",
	quotav1alpha1.ReasonWithdrawn:         "Withdrawn",
	quotav1alpha1.ReasonExpired:           "Expired",
}

// stateClasses are the classes of console.css for states. Words name the states as well.
var stateClasses = map[string]string{
	"": "soft", quotav1alpha1.ReasonPending: "near", quotav1alpha1.ReasonApproved: "good", quotav1alpha1.ReasonPartiallyApproved: "good",
	quotav1alpha1.ReasonDenied: "over", quotav1alpha1.ReasonWithdrawn: "soft", quotav1alpha1.ReasonExpired: "soft",
}
