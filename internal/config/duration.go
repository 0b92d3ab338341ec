package config

import (
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Duration is written as Go writes it, such as 15s or 5m.
type Duration struct {
	time.Duration
	// invalid is the JSON in the file if it is no duration. Validation reports it with its field, together with all
	// other errors.
	invalid string
}

// UnmarshalJSON accepts any JSON. Validation rejects invalid durations.
func (d *Duration) UnmarshalJSON(raw []byte) error {
	*d = Duration{}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if parsed, err := time.ParseDuration(text); err == nil {
			d.Duration = parsed
			return nil
		}
	}
	d.invalid = string(raw)
	return nil
}

// MarshalJSON writes the duration as a string.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// check rejects invalid durations, and those shorter than least.
func (d Duration) check(path *field.Path, least time.Duration) field.ErrorList {
	switch {
	case d.invalid != "":
		return field.ErrorList{field.Invalid(path, json.RawMessage(d.invalid), "must be a duration with a unit, such as 15s or 5m")}
	case d.Duration < least:
		return field.ErrorList{field.Invalid(path, d.String(), "must be at least "+least.String())}
	}
	return nil
}
