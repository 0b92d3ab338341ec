package policy

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"text/template"
)

// function is a function that templates may call.
type function struct {
	// argsMin and argsMax bound the number of arguments, including a piped one; argsMax 0 means no upper bound.
	argsMin, argsMax int
	// call implements the function; nil if text/template does.
	call any
}

// functions are the functions that templates may call. They do not include the built-in functions for formatting and
// calling (print, printf, println, html, js, urlquery, call): these make texts of any size and write missing values as
// "<no value>".
//
// The last argument is the value to work on, because text/template puts a piped value there:
// {{.trigger.metadata.name | lower | replace "." "-"}}. Functions take texts as strings, numbers or booleans; numbers
// are written in full.
var functions = map[string]function{
	"and":      {argsMin: 1},
	"or":       {argsMin: 1},
	"not":      {argsMin: 1, argsMax: 1},
	"eq":       {argsMin: 2},
	"ne":       {argsMin: 2, argsMax: 2},
	"lt":       {argsMin: 2, argsMax: 2},
	"le":       {argsMin: 2, argsMax: 2},
	"gt":       {argsMin: 2, argsMax: 2},
	"ge":       {argsMin: 2, argsMax: 2},
	"len":      {argsMin: 1, argsMax: 1},
	"slice":    {argsMin: 1, argsMax: 4},
	"index":    {argsMin: 2, call: index},
	"default":  {argsMin: 2, argsMax: 2, call: defaultTo},
	"lower":    {argsMin: 1, argsMax: 1, call: textFunction("lower", strings.ToLower)},
	"upper":    {argsMin: 1, argsMax: 1, call: textFunction("upper", strings.ToUpper)},
	"title":    {argsMin: 1, argsMax: 1, call: textFunction("title", title)},
	"trim":     {argsMin: 1, argsMax: 1, call: textFunction("trim", strings.TrimSpace)},
	"toString": {argsMin: 1, argsMax: 1, call: textFunction("toString", func(s string) string { return s })},
	"replace":  {argsMin: 3, argsMax: 3, call: replace},
	"contains": {argsMin: 2, argsMax: 2, call: contains},
	"split":    {argsMin: 2, argsMax: 2, call: split},
	"join":     {argsMin: 2, argsMax: 2, call: join},
	"toInt":    {argsMin: 1, argsMax: 1, call: toInt},
}

// implementations are the functions missing from text/template, and those inserted by the analysis.
var implementations = func() template.FuncMap {
	implementations := template.FuncMap{optionalIndexFunction: optionalIndex}
	for name, f := range functions {
		if f.call != nil {
			implementations[name] = f.call
		}
	}
	return implementations
}()

// valueError is an error in a value read or made by a template.
type valueError struct{ reason string }

func (e *valueError) Error() string { return e.reason }

func valueErrorf(format string, args ...any) error {
	return &valueError{fmt.Sprintf(format, args...)}
}

// textFunction makes a template function of a function on texts.
func textFunction(name string, transform func(string) string) func(any) (string, error) {
	return func(value any) (string, error) {
		text, err := argument(name, value)
		if err != nil {
			return "", err
		}
		// Changing case may lengthen a text, by a small factor.
		if text = transform(text); len(text) > textBytesMax {
			return "", tooLong(name)
		}
		return text, nil
	}
}

// title writes the first letter of each word in upper case. Words are separated by white space.
func title(s string) string {
	var out strings.Builder
	start := true
	for _, r := range s {
		if start {
			out.WriteString(strings.ToUpper(string(r)))
		} else {
			out.WriteRune(r)
		}
		start = strings.ContainsRune(" \t\r\n", r)
	}
	return out.String()
}

// defaultTo returns value, or fallback if value is missing, null, "", 0, false or empty.
func defaultTo(fallback, value any) any {
	if truth, _ := template.IsTrue(value); truth {
		return value
	}
	return fallback
}

// replace returns text with every occurrence of one text replaced by another.
func replace(old, replacement, text any) (string, error) {
	texts, err := arguments("replace", old, replacement, text)
	if err != nil {
		return "", err
	}
	from, to, in := texts[0], texts[1], texts[2]
	if len(in)+strings.Count(in, from)*(len(to)-len(from)) > textBytesMax {
		return "", tooLong("replace")
	}
	return strings.ReplaceAll(in, from, to), nil
}

// contains reports whether the container has the part: a text in a text, or an item in a list.
func contains(part, container any) (bool, error) {
	list, ok := container.([]any)
	if !ok {
		texts, err := arguments("contains", part, container)
		if err != nil {
			return false, err
		}
		return strings.Contains(texts[1], texts[0]), nil
	}
	item, err := argument("contains", part)
	if err != nil {
		return false, err
	}
	if len(list) > listItemsMax {
		return false, tooMany("contains")
	}
	for _, candidate := range list {
		if text, err := textOf(candidate); err == nil && text == item {
			return true, nil
		}
	}
	return false, nil
}

// split returns the parts of text between separators: {{index (split "/" .trigger.spec.ref) 0}}. The parts are also
// fields: {{(split "/" .trigger.spec.ref)._0}}.
func split(separator, text any) ([]any, error) {
	texts, err := arguments("split", separator, text)
	if err != nil {
		return nil, err
	}
	parts := strings.SplitN(texts[1], texts[0], listItemsMax+1)
	if len(parts) > listItemsMax {
		return nil, tooMany("split")
	}
	return listOf(parts), nil
}

// join returns the items of a list as one text, with a separator between them.
func join(separator, list any) (string, error) {
	between, err := argument("join", separator)
	if err != nil {
		return "", err
	}
	items, ok := list.([]any)
	if !ok {
		return "", valueErrorf("join: the argument %s, not a list", describe(list))
	}
	if len(items) > listItemsMax {
		return "", tooMany("join")
	}
	var out strings.Builder
	for i, item := range items {
		text, err := textOf(item)
		if err != nil {
			return "", valueErrorf("join: item %d %v", i, err)
		}
		if i > 0 {
			out.WriteString(between)
		}
		out.WriteString(text)
		if out.Len() > textBytesMax {
			return "", tooLong("join")
		}
	}
	return out.String(), nil
}

// toInt returns a whole number of 64 bits from a number or decimal digits.
func toInt(value any) (int64, error) {
	if number, ok := value.(float64); ok {
		// The bounds are exact in float64; the upper one is 2^63, too large for an int64.
		if number == math.Trunc(number) && number >= math.MinInt64 && number < math.MaxInt64 {
			return int64(number), nil
		}
	}
	text, err := argument("toInt", value)
	if err != nil {
		return 0, err
	}
	number, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0, valueErrorf("toInt: %.40q is not a whole number of 64 bits", text)
	}
	return number, nil
}

// arguments returns values as bounded texts.
func arguments(function string, values ...any) ([]string, error) {
	texts := make([]string, len(values))
	for i, value := range values {
		text, err := argument(function, value)
		if err != nil {
			return nil, err
		}
		texts[i] = text
	}
	return texts, nil
}

// argument returns a value as a bounded text.
func argument(function string, value any) (string, error) {
	text, err := textOf(value)
	if err != nil {
		return "", valueErrorf("%s: the argument %v", function, err)
	}
	if len(text) > textBytesMax {
		return "", tooLong(function)
	}
	return text, nil
}

func tooLong(function string) error {
	return valueErrorf("%s: a text is longer than %d bytes", function, textBytesMax)
}

func tooMany(function string) error {
	return valueErrorf("%s: a list has more than %d items", function, listItemsMax)
}
