package ledger

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Operator relates a dimension to the values of a requirement.
type Operator string

// The operators have the meaning of those in Kubernetes label selectors.
const (
	// In: the dimension is present with one of the values.
	In Operator = "In"
	// NotIn: the dimension is absent, or has another value.
	NotIn Operator = "NotIn"
	// Exists: the dimension is present.
	Exists Operator = "Exists"
	// DoesNotExist: the dimension is absent.
	DoesNotExist Operator = "DoesNotExist"
)

// Requirement is one condition of a selector.
type Requirement struct {
	Key      string
	Operator Operator
	// Values are mandatory with In and NotIn, and invalid with Exists and DoesNotExist.
	Values []string `json:",omitempty"`
}

// Selector is a condition on dimensions: all its requirements must hold. The zero value has none and matches
// everything. Values are comparable with ==. Selectors with the same requirements are equal, in any order and
// repetition. In JSON a selector is an array of requirements.
type Selector struct {
	// canonical is the JSON array of the sorted requirements, and empty if there are none.
	canonical string
}

// NewSelector returns a selector with the given requirements. It checks them like a label selector. There may be at
// most [RequirementsMax] of them, with at most [RequirementValuesMax] values each.
func NewSelector(requirements ...Requirement) (Selector, error) {
	if len(requirements) == 0 {
		return Selector{}, nil
	}
	if len(requirements) > RequirementsMax {
		return Selector{}, fmt.Errorf("%d requirements, at most %d are allowed", len(requirements), RequirementsMax)
	}
	sorted := make([]Requirement, len(requirements))
	for i, r := range requirements {
		if err := r.check(); err != nil {
			return Selector{}, fmt.Errorf("requirement %d: %w", i, err)
		}
		r.Values = slices.Compact(slices.Sorted(slices.Values(r.Values)))
		sorted[i] = r
	}
	slices.SortFunc(sorted, Requirement.compare)
	sorted = slices.CompactFunc(sorted, func(a, b Requirement) bool { return a.compare(b) == 0 })
	canonical, err := json.Marshal(sorted)
	if err != nil {
		return Selector{}, fmt.Errorf("encode selector: %w", err)
	}
	return Selector{canonical: string(canonical)}, nil
}

func (r Requirement) check() error {
	if err := checkDimensionKey(r.Key); err != nil {
		return err
	}
	switch r.Operator {
	case In, NotIn:
		if len(r.Values) == 0 {
			return fmt.Errorf("operator %s on %s needs values", r.Operator, r.Key)
		}
	case Exists, DoesNotExist:
		if len(r.Values) > 0 {
			return fmt.Errorf("operator %s on %s takes no values", r.Operator, r.Key)
		}
	default:
		return fmt.Errorf("operator %q on %s is not one of In, NotIn, Exists, DoesNotExist", string(r.Operator), r.Key)
	}
	if len(r.Values) > RequirementValuesMax {
		return fmt.Errorf("%d values for %s, at most %d are allowed", len(r.Values), r.Key, RequirementValuesMax)
	}
	for _, value := range r.Values {
		if err := checkDimensionValue(r.Key, value); err != nil {
			return err
		}
	}
	return nil
}

func (r Requirement) compare(s Requirement) int {
	return cmp.Or(
		cmp.Compare(r.Key, s.Key),
		cmp.Compare(r.Operator, s.Operator),
		slices.Compare(r.Values, s.Values),
	)
}

func (r Requirement) matches(d Dimensions) bool {
	value, present := d.Get(r.Key)
	switch r.Operator {
	case In:
		return present && slices.Contains(r.Values, value)
	case NotIn:
		return !present || !slices.Contains(r.Values, value)
	case Exists:
		return present
	default:
		return !present
	}
}

// matchesAll reports whether every requirement holds for the dimensions.
func matchesAll(requirements []Requirement, d Dimensions) bool {
	for i := range requirements {
		if !requirements[i].matches(d) {
			return false
		}
	}
	return true
}

// MatchesEverything reports whether the selector has no requirements.
func (s Selector) MatchesEverything() bool { return s.canonical == "" }

// Matches reports whether all requirements hold for the dimensions.
func (s Selector) Matches(d Dimensions) bool { return matchesAll(s.Requirements(), d) }

// Requirements returns the requirements in canonical order: sorted, without repetition.
func (s Selector) Requirements() []Requirement {
	if s.MatchesEverything() {
		return nil
	}
	var requirements []Requirement
	if err := json.Unmarshal([]byte(s.canonical), &requirements); err != nil {
		panic(fmt.Sprintf("canonical selector %q cannot be decoded: %v", s.canonical, err)) // only constructors write it
	}
	return requirements
}

// String returns the selector as text for people, such as "region in (eu,us), !spot". It returns "" for the selector
// that matches everything.
func (s Selector) String() string {
	var parts []string
	for _, r := range s.Requirements() {
		switch r.Operator {
		case In:
			parts = append(parts, r.Key+" in ("+strings.Join(r.Values, ",")+")")
		case NotIn:
			parts = append(parts, r.Key+" notin ("+strings.Join(r.Values, ",")+")")
		case Exists:
			parts = append(parts, r.Key)
		case DoesNotExist:
			parts = append(parts, "!"+r.Key)
		}
	}
	return strings.Join(parts, ", ")
}

// MarshalJSON implements [json.Marshaler].
func (s Selector) MarshalJSON() ([]byte, error) {
	if s.MatchesEverything() {
		return []byte("[]"), nil
	}
	return []byte(s.canonical), nil
}

// UnmarshalJSON implements [json.Unmarshaler]. It fails like [NewSelector].
func (s *Selector) UnmarshalJSON(data []byte) error {
	var requirements []Requirement
	if err := json.Unmarshal(data, &requirements); err != nil {
		return fmt.Errorf("decode selector: %w", err)
	}
	decoded, err := NewSelector(requirements...)
	if err != nil {
		return err
	}
	*s = decoded
	return nil
}
