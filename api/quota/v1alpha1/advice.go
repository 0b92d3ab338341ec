package v1alpha1

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// advicePlaceholder is the placeholder of the consumer's name, see [AnnotationExceededAdvice].
const advicePlaceholder = "{{name}}"

// placeholders matches everything in the form of a placeholder.
var placeholders = regexp.MustCompile(`{{[^{}]*}}`)

// CheckExceededAdvice returns an error unless a text is valid advice for exceeded quota: one line, with {{name}} as the
// only placeholder. It does not check the length, see [ExceededAdviceMax].
func CheckExceededAdvice(text string) error {
	for _, placeholder := range placeholders.FindAllString(text, -1) {
		if placeholder != advicePlaceholder {
			return fmt.Errorf("there is no placeholder %s: %s stands for the name of the consumer", placeholder, advicePlaceholder)
		}
	}
	rest := placeholders.ReplaceAllString(text, "")
	switch {
	case strings.Contains(rest, "{{"), strings.Contains(rest, "}}"):
		return fmt.Errorf("a placeholder is not closed: write %s", advicePlaceholder)
	case strings.ContainsFunc(text, unicode.IsControl):
		return errors.New("write it in one line, without control characters")
	}
	return nil
}
