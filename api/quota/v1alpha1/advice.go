package v1alpha1

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// advicePlaceholder stands for the consumer's name, see [AnnotationExceededAdvice].
const advicePlaceholder = "{{name}}"

// placeholders finds what looks like one.
var placeholders = regexp.MustCompile(`{{[^{}]*}}`)

// CheckExceededAdvice returns what is wrong with what to do where quota is exceeded, but for its length: {{name}} is the
// only placeholder, and it is one line.
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
