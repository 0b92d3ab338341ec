package ledger

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Dimensions is a set of key-value pairs of a charge, such as region=eu: the kind of a resource type. Values are
// comparable with == and may be keys of maps. The zero value is the empty set. In JSON it is an object of strings.
type Dimensions struct {
	// canonical is key, NUL, value, NUL for every pair, sorted by key.
	canonical string
}

// NewDimensions returns the set with the given pairs, at most [DimensionsMax]. Keys must not be empty. Keys and values
// must be UTF-8 without NUL, of at most [DimensionKeyBytesMax] and [DimensionValueBytesMax] bytes.
func NewDimensions(pairs map[string]string) (Dimensions, error) {
	if len(pairs) == 0 {
		return Dimensions{}, nil
	}
	if len(pairs) > DimensionsMax {
		return Dimensions{}, fmt.Errorf("%d dimensions, at most %d are allowed", len(pairs), DimensionsMax)
	}
	var canonical strings.Builder
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		if err := checkDimensionKey(key); err != nil {
			return Dimensions{}, err
		}
		if err := checkDimensionValue(key, pairs[key]); err != nil {
			return Dimensions{}, err
		}
		canonical.WriteString(key + "\x00" + pairs[key] + "\x00")
	}
	return Dimensions{canonical: canonical.String()}, nil
}

func checkDimensionKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("a dimension key is empty")
	case len(key) > DimensionKeyBytesMax:
		return fmt.Errorf("a dimension key is %d bytes long, at most %d are allowed", len(key), DimensionKeyBytesMax)
	case !isText(key):
		return fmt.Errorf("dimension key %q is not UTF-8 or has a NUL", key)
	}
	return nil
}

func checkDimensionValue(key, value string) error {
	switch {
	case len(value) > DimensionValueBytesMax:
		return fmt.Errorf("a value of dimension %s is %d bytes long, at most %d are allowed", key, len(value), DimensionValueBytesMax)
	case !isText(value):
		return fmt.Errorf("value %q of dimension %s is not UTF-8 or has a NUL", value, key)
	}
	return nil
}

func isText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// IsZero reports whether the set is empty.
func (d Dimensions) IsZero() bool { return d.canonical == "" }

// Compare orders dimensions by their sorted pairs, the empty set first.
func (d Dimensions) Compare(e Dimensions) int { return strings.Compare(d.canonical, e.canonical) }

// All yields the pairs, sorted by key.
func (d Dimensions) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for rest := d.canonical; rest != ""; {
			var key, value string
			key, rest, _ = strings.Cut(rest, "\x00")
			value, rest, _ = strings.Cut(rest, "\x00")
			if !yield(key, value) {
				return
			}
		}
	}
}

// Get returns the value of a key and reports whether the set has the key.
func (d Dimensions) Get(key string) (value string, present bool) {
	for k, v := range d.All() {
		if k == key {
			return v, true
		}
	}
	return "", false
}

// Map returns the pairs as a new map. It returns nil for the empty set.
func (d Dimensions) Map() map[string]string {
	if d.IsZero() {
		return nil
	}
	return maps.Collect(d.All())
}

// String returns the pairs as text for people, sorted by key, such as "region=eu,tier=gold".
func (d Dimensions) String() string {
	var parts []string
	for key, value := range d.All() {
		parts = append(parts, key+"="+value)
	}
	return strings.Join(parts, ",")
}

// MarshalJSON implements [json.Marshaler].
func (d Dimensions) MarshalJSON() ([]byte, error) {
	if d.IsZero() {
		return []byte("{}"), nil
	}
	return json.Marshal(d.Map())
}

// UnmarshalJSON implements [json.Unmarshaler]. It fails like [NewDimensions].
func (d *Dimensions) UnmarshalJSON(data []byte) error {
	var pairs map[string]string
	if err := json.Unmarshal(data, &pairs); err != nil {
		return fmt.Errorf("decode dimensions: %w", err)
	}
	decoded, err := NewDimensions(pairs)
	if err != nil {
		return err
	}
	*d = decoded
	return nil
}
