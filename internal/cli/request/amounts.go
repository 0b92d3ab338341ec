package request

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/usage"
)

// Amount is an argument TYPE=AMOUNT.
type Amount struct {
	// Type is the resource type, or its end after the last slash.
	Type string
	// Value is in base units.
	Value int64
	// IsIncrease means that the amount is on top of the present limit.
	IsIncrease bool
	// Text replaces Value as long as the display unit is unknown, such as 7 cores, see [Amount.InBaseUnits].
	Text string
}

// amountWithUnit is a number and the word of a unit that is no suffix of a quantity.
var amountWithUnit = regexp.MustCompile(`^[0-9][0-9.,]*\s*\p{L}.*$`)

// ParseAmountsWithUnits parses arguments as [ParseAmounts] does, and amounts with a unit as well: TYPE=7cores, or
// TYPE="+7 cores".
func ParseAmountsWithUnits(arguments []string, minimum int64) ([]Amount, error) {
	amounts := make([]Amount, 0, len(arguments))
	for _, argument := range arguments {
		resourceType, text, _ := strings.Cut(argument, "=")
		digits, isIncrease := strings.CutPrefix(text, "+")
		if _, err := resource.ParseQuantity(digits); err != nil && resourceType != "" && amountWithUnit.MatchString(digits) {
			amounts = append(amounts, Amount{Type: resourceType, IsIncrease: isIncrease, Text: digits})
			continue
		}
		parsed, err := ParseAmounts([]string{argument}, minimum)
		if err != nil {
			return nil, err
		}
		amounts = append(amounts, parsed...)
	}
	return amounts, nil
}

// InBaseUnits returns an amount of the display unit in base units. A text without a unit is in display units. An amount
// below the minimum is an error.
func (a Amount) InBaseUnits(unit usage.Unit, minimum int64) (Amount, error) {
	if a.Text == "" {
		return a, nil
	}
	if unit.Name == "" {
		return a, invalid("", "%s=%s: the unit of %s is not known, because you see no quota of it: give base units, without a unit", a.Type, a.Text, a.Type)
	}
	value, err := unit.Parse(a.Text)
	switch {
	case err != nil:
		return a, invalid("", "%s=%s: %s", a.Type, a.Text, err)
	case value < minimum:
		return a, invalid("", "%s=%s: the amount is too small: give at least %s", a.Type, a.Text, unit.Amount(minimum))
	}
	a.Value, a.Text = value, ""
	return a, nil
}

// String returns the argument TYPE=AMOUNT.
func (a Amount) String() string {
	if a.IsIncrease {
		return fmt.Sprintf("%s=+%d", a.Type, a.Value)
	}
	return fmt.Sprintf("%s=%d", a.Type, a.Value)
}

// ParseAmounts parses arguments TYPE=LIMIT and TYPE=+INCREASE. An amount below the minimum is an error.
func ParseAmounts(arguments []string, minimum int64) ([]Amount, error) {
	amounts := make([]Amount, 0, len(arguments))
	for _, argument := range arguments {
		resourceType, text, isPair := strings.Cut(argument, "=")
		if !isPair || resourceType == "" || text == "" {
			return nil, invalid("", "%q is not TYPE=AMOUNT, such as projects=10 for that limit, or projects=+5 for that much more", argument)
		}
		a := Amount{Type: resourceType, IsIncrease: strings.HasPrefix(text, "+")}
		digits := strings.TrimPrefix(text, "+")
		quantity, err := resource.ParseQuantity(digits)
		if err != nil || strings.HasPrefix(digits, "+") {
			return nil, invalid("", "%s: %q is not an amount such as 10, 2k or 5Gi", argument, text)
		}
		a.Value = quantity.Value() // it rounds up
		switch {
		case quantity.Cmp(*resource.NewQuantity(math.MaxInt64, resource.DecimalSI)) > 0:
			return nil, invalid("", "%s: the amount is too large: give at most %d", argument, int64(math.MaxInt64))
		case quantity.Cmp(*resource.NewQuantity(a.Value, resource.DecimalSI)) != 0:
			return nil, invalid("", "%s: the amount is not a whole number of base units: give one, such as %d", argument, max(a.Value, minimum))
		case a.Value < minimum:
			return nil, invalid("", "%s: the amount is too small: give at least %d", argument, minimum)
		}
		amounts = append(amounts, a)
	}
	return amounts, nil
}

// ParseDimensions parses arguments KEY=VALUE.
func ParseDimensions(arguments []string) (map[string]string, error) {
	if len(arguments) == 0 {
		return nil, nil
	}
	dimensions := map[string]string{}
	for _, argument := range arguments {
		key, value, isPair := strings.Cut(argument, "=")
		if _, isTwice := dimensions[key]; !isPair || key == "" || isTwice {
			return nil, invalid("--dimension", "%q is not KEY=VALUE with a key of its own, such as region=eu", argument)
		}
		dimensions[key] = value
	}
	return dimensions, nil
}

// asked returns the amounts of a request, with resource types instead of names.
func asked(amounts []Amount, dimensions map[string]string, known []string, units map[string]usage.Unit) ([]quotav1alpha1.RequestedQuota, error) {
	requests := make([]quotav1alpha1.RequestedQuota, 0, len(amounts))
	for _, a := range amounts {
		resourceType, err := TypeNamed(a.Type, known)
		if err != nil {
			return nil, err
		}
		if a, err = a.InBaseUnits(units[resourceType], 1); err != nil {
			return nil, err
		}
		r := quotav1alpha1.RequestedQuota{ResourceType: resourceType, Dimensions: dimensions}
		switch {
		case a.IsIncrease:
			r.Increase = new(a.Value)
		case len(dimensions) > 0:
			return nil, invalid("", "%[1]s=%[2]d: a limit covers the whole resource type: with --dimension, ask for an increase, such as %[1]s=+%[2]d",
				a.Type, a.Value)
		default:
			r.Limit = new(a.Value)
		}
		requests = append(requests, r)
	}
	return requests, nil
}

// TypeNamed returns the resource type that a name stands for: itself, or the known one that ends with it after a slash.
// An unknown name stands for itself.
func TypeNamed(name string, known []string) (string, error) {
	if slices.Contains(known, name) {
		return name, nil
	}
	var found []string
	for _, resourceType := range known {
		if path.Base(resourceType) == name && !slices.Contains(found, resourceType) {
			found = append(found, resourceType)
		}
	}
	switch len(found) {
	case 0:
		return name, nil
	case 1:
		return found[0], nil
	default:
		slices.Sort(found)
		return "", invalid("", "%s stands for several resource types: name one of %s", name, strings.Join(found, ", "))
	}
}

// asks returns the requested amounts for people: the text of the status or, before there is one, the amounts in base
// units.
func asks(request *quotav1alpha1.QuotaRequest) string {
	return cmp.Or(request.Status.Asks, message.Asks(nil, request.Spec.Requests))
}
