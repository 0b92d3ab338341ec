package message

import (
	"regexp"
	"strings"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// calledURL is the URL of a failed call in an error of Go's HTTP client.
var calledURL = regexp.MustCompile(`(?:Get|Post|Put|Head|Delete) "https?://[^"]*": `)

// WithoutURLs cuts the URLs of calls out of an error. The path of a webhook proves that the API server calls it, so it
// is a secret, and the API server repeats it to everybody whose request it could not review.
func WithoutURLs(text string) string { return calledURL.ReplaceAllString(text, "") }

// IsUnreached reports whether the API server gave an error because it did not reach Bursar.
func IsUnreached(text string) bool {
	_, webhook, fails := strings.Cut(text, `failed calling webhook "`)
	name, _, _ := strings.Cut(webhook, `"`)
	return fails && strings.HasSuffix(name, "."+quotav1alpha1.GroupName)
}
