package requests

import (
	"cmp"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
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

// plain matches words that a shell leaves as they are.
var plain = regexp.MustCompile(`^[A-Za-z0-9._/:@%+=,-]+$`)

// commandLine returns a command line to paste into a shell.
func commandLine(words ...string) string {
	quoted := make([]string, 0, len(words))
	for _, word := range words {
		if !plain.MatchString(word) {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		quoted = append(quoted, word)
	}
	return strings.Join(quoted, " ")
}

// consumerText names a consumer for people.
func consumerText(ref quotav1alpha1.ConsumerRef) string {
	text := ref.Kind + " " + ref.Name
	if ref.Namespace != "" {
		text += " in namespace " + ref.Namespace
	}
	return text
}

// Asks returns what a request asks for, in display units. They are known once the request is evaluated.
func Asks(q *quotav1alpha1.QuotaRequest) string {
	return cmp.Or(q.Status.Asks, "being evaluated")
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

// stateClasses are the classes of console.css for states. Words tell them as well.
var stateClasses = map[string]string{
	"": "soft", quotav1alpha1.ReasonPending: "near", quotav1alpha1.ReasonApproved: "good", quotav1alpha1.ReasonPartiallyApproved: "good",
	quotav1alpha1.ReasonDenied: "over", quotav1alpha1.ReasonWithdrawn: "soft", quotav1alpha1.ReasonExpired: "soft",
}
