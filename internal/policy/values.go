package policy

import (
	"fmt"
	"strconv"
	"strings"
)

// reader makes the template function that reads the field at path below its argument. baseText is the text of the
// argument in the template. If the field or one above it is missing or null, the result is nil if optional, and an
// error if not.
func reader(baseText string, path []string, optional bool) func(any) (any, error) {
	return func(base any) (any, error) {
		value, walked, err := lookUp(base, baseText, path)
		switch {
		case err != nil:
			return nil, err
		case value != nil || optional:
			return value, nil
		case walked < len(path):
			return nil, valueErrorf("%s is not set: there is no %s", chainText(baseText, path), chainText(baseText, path[:walked]))
		default:
			return nil, valueErrorf("%s is not set", chainText(baseText, path))
		}
	}
}

// printer makes the template function that turns a value into the text to print. source is the text of the value in the
// template.
func printer(source string) func(any) (string, error) {
	return func(value any) (string, error) {
		text, err := textOf(value)
		if err != nil {
			return "", valueErrorf("%s %v", source, err)
		}
		return text, nil
	}
}

// lookUp walks along path to its end, or to the first missing or null part, and returns the number of walked parts.
func lookUp(base any, baseText string, path []string) (value any, walked int, err error) {
	value = base
	for i, name := range path {
		switch container := value.(type) {
		case nil:
			return nil, i, nil
		case map[string]any:
			value = container[name]
		case []any:
			value = item(container, name)
		default:
			return nil, i, valueErrorf("%s cannot be read: %s %s and has no fields",
				chainText(baseText, path), chainText(baseText, path[:i]), describe(value))
		}
	}
	return value, len(path), nil
}

// item returns the item for _0, _1 and so on, or nil if there is none.
func item(list []any, name string) any {
	digits, ok := strings.CutPrefix(name, "_")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 0 || n >= len(list) {
		return nil
	}
	return list[n]
}

func chainText(baseText string, path []string) string {
	if len(path) == 0 {
		return baseText
	}
	return strings.TrimSuffix(baseText, ".") + "." + strings.Join(path, ".")
}

// index returns the value under a key of an object, or at a position of a list, counted from 0, and so on for further
// keys. A missing or null key is an error. Unlike a chain of fields, index can read keys with dots, slashes or dashes:
// {{index .trigger.metadata.labels "app.kubernetes.io/name"}}.
func index(container any, keys ...any) (any, error) {
	for _, key := range keys {
		value, err := indexOne(container, key)
		if err != nil {
			return nil, err
		}
		if value == nil {
			return nil, valueErrorf("index: there is nothing under %s", keyText(key))
		}
		container = value
	}
	return container, nil
}

// optionalIndexFunction names optionalIndex. The analysis inserts it for index under default.
const optionalIndexFunction = "bursarOptionalIndex"

// optionalIndex is index, but returns nil for a missing or null value.
func optionalIndex(container any, keys ...any) (any, error) {
	for _, key := range keys {
		if container == nil {
			return nil, nil
		}
		value, err := indexOne(container, key)
		if err != nil {
			return nil, err
		}
		container = value
	}
	return container, nil
}

func indexOne(container, key any) (any, error) {
	switch container := container.(type) {
	case map[string]any:
		if name, ok := key.(string); ok {
			return container[name], nil
		}
		return nil, valueErrorf("index: the key %s, but the keys of an object are texts", describe(key))
	case []any:
		position, ok := wholeNumber(key)
		if !ok {
			return nil, valueErrorf("index: the key %s, but the items of a list are counted from 0", describe(key))
		}
		if position < 0 || position >= int64(len(container)) {
			return nil, nil
		}
		return container[position], nil
	default:
		return nil, valueErrorf("index: the argument %s, not an object or a list", describe(container))
	}
}

func wholeNumber(value any) (int64, bool) {
	switch number := value.(type) {
	case int:
		return int64(number), true
	case int64:
		return number, true
	default:
		return 0, false
	}
}

func keyText(key any) string {
	if text, err := textOf(key); err == nil {
		return fmt.Sprintf("%.40q", text)
	}
	return "the key"
}

// textOf returns a text, number or boolean as a text; numbers in full and without exponent. The error begins with a
// verb, to follow the name of the value.
func textOf(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int:
		return strconv.Itoa(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case nil:
		return "", valueErrorf("has no value")
	default:
		return "", valueErrorf("%s, not a text", describe(value))
	}
}

// describe returns the kind of a value, beginning with a verb.
func describe(value any) string {
	switch value.(type) {
	case nil:
		return "has no value"
	case string:
		return "is a text"
	case bool:
		return "is a boolean"
	case int, int64, float64:
		return "is a number"
	case map[string]any:
		return "is an object"
	case []any:
		return "is a list"
	default:
		return "is of an unknown kind"
	}
}
