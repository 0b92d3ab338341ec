package ledger_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/bursar/bursar/internal/ledger"
)

func TestDimensionsAreValues(t *testing.T) {
	eu := dimensionsOf("region", "eu", "tier", "gold")
	if eu != dimensionsOf("tier", "gold", "region", "eu") {
		t.Error("the order of pairs must not matter")
	}
	if dimensionsOf("a", "b", "c", "d") == dimensionsOf("a", "b=c,d") || dimensionsOf("a", "") == dimensionsOf() {
		t.Error("different pairs must be different, whatever characters they have")
	}
	if got := eu.String(); got != "region=eu,tier=gold" {
		t.Errorf("String() = %q", got)
	}
	if got := eu.Map(); !maps.Equal(got, map[string]string{"region": "eu", "tier": "gold"}) {
		t.Errorf("Map() = %v", got)
	}
	if value, present := eu.Get("gold"); present {
		t.Errorf("a value was taken for a key, of value %q", value)
	}
	none, err := ledger.NewDimensions(map[string]string{})
	if err != nil || none != (ledger.Dimensions{}) || none.Map() != nil || !none.IsZero() {
		t.Errorf("no pairs must be the zero value: %v, %v", none, err)
	}
}

func TestNewDimensionsRejects(t *testing.T) {
	many := map[string]string{}
	for i := range ledger.DimensionsMax + 1 {
		many[fmt.Sprint(i)] = "x"
	}
	for name, c := range map[string]struct {
		pairs map[string]string
		want  string
	}{
		"too many":     {many, "17 dimensions"},
		"no key":       {map[string]string{"": "x"}, "key is empty"},
		"long key":     {map[string]string{strings.Repeat("k", ledger.DimensionKeyBytesMax+1): "x"}, "318 bytes long"},
		"long value":   {map[string]string{"region": strings.Repeat("v", ledger.DimensionValueBytesMax+1)}, "value of dimension region is 254"},
		"broken key":   {map[string]string{"\xff": "x"}, "not UTF-8"},
		"broken value": {map[string]string{"region": "\xff"}, "not UTF-8"},
		"NUL":          {map[string]string{"region": "a\x00b"}, "has a NUL"},
	} {
		t.Run(name, func(t *testing.T) {
			if d, err := ledger.NewDimensions(c.pairs); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v; want an error with %q", d, err, c.want)
			}
			encoded, err := json.Marshal(c.pairs)
			if err != nil || strings.Contains(name, "broken") { // JSON carries only UTF-8
				return
			}
			if err := json.Unmarshal(encoded, new(ledger.Dimensions)); err == nil {
				t.Error("decoding must reject the same")
			}
		})
	}
}

func TestSelectorMatches(t *testing.T) {
	requirement := func(key string, o ledger.Operator, values ...string) ledger.Requirement {
		return ledger.Requirement{Key: key, Operator: o, Values: values}
	}
	none, eu, us := dimensionsOf(), dimensionsOf("region", "eu"), dimensionsOf("region", "us")
	gold := dimensionsOf("region", "eu", "tier", "gold")
	for name, c := range map[string]struct {
		requirements []ledger.Requirement
		yes, no      []ledger.Dimensions
	}{
		"everything":      {nil, []ledger.Dimensions{none, eu, gold}, nil},
		"In":              {[]ledger.Requirement{requirement("region", ledger.In, "eu", "ch")}, []ledger.Dimensions{eu, gold}, []ledger.Dimensions{none, us}},
		"NotIn":           {[]ledger.Requirement{requirement("region", ledger.NotIn, "eu")}, []ledger.Dimensions{none, us}, []ledger.Dimensions{eu, gold}},
		"Exists":          {[]ledger.Requirement{requirement("tier", ledger.Exists)}, []ledger.Dimensions{gold}, []ledger.Dimensions{none, eu}},
		"DoesNotExist":    {[]ledger.Requirement{requirement("tier", ledger.DoesNotExist)}, []ledger.Dimensions{none, eu}, []ledger.Dimensions{gold}},
		"all of them":     {[]ledger.Requirement{requirement("region", ledger.In, "eu"), requirement("tier", ledger.NotIn, "gold")}, []ledger.Dimensions{eu}, []ledger.Dimensions{none, us, gold}},
		"a contradiction": {[]ledger.Requirement{requirement("tier", ledger.Exists), requirement("tier", ledger.DoesNotExist)}, nil, []ledger.Dimensions{none, eu, gold}},
	} {
		t.Run(name, func(t *testing.T) {
			s := selectorOf(c.requirements...)
			for _, d := range c.yes {
				if !s.Matches(d) {
					t.Errorf("%q must match (%s)", s, d)
				}
			}
			for _, d := range c.no {
				if s.Matches(d) {
					t.Errorf("%q must not match (%s)", s, d)
				}
			}
		})
	}
}

func TestSelectorsAreCanonical(t *testing.T) {
	a := selectorOf(in("region", "us", "eu", "us"), ledger.Requirement{Key: "tier", Operator: ledger.Exists})
	b := selectorOf(ledger.Requirement{Key: "tier", Operator: ledger.Exists}, in("region", "eu", "us"), in("region", "us", "eu"))
	if a != b {
		t.Errorf("%q and %q must be equal: order and repetition mean nothing", a, b)
	}
	if got := a.String(); got != "region in (eu,us), tier" {
		t.Errorf("String() = %q", got)
	}
	if again := selectorOf(a.Requirements()...); again != a {
		t.Errorf("the requirements of %q make %q", a, again)
	}
	encoded, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var decoded ledger.Selector
	if err := json.Unmarshal(encoded, &decoded); err != nil || decoded != a {
		t.Errorf("%s decodes to %q, %v", encoded, decoded, err)
	}
}

func TestNewSelectorRejects(t *testing.T) {
	many := make([]ledger.Requirement, ledger.RequirementsMax+1)
	for i := range many {
		many[i] = in(fmt.Sprint(i), "x")
	}
	for name, c := range map[string]struct {
		requirements []ledger.Requirement
		want         string
	}{
		"unknown operator":     {[]ledger.Requirement{{Key: "tier", Operator: "Near"}}, `operator "Near"`},
		"no key":               {[]ledger.Requirement{in("", "x")}, "key is empty"},
		"In without values":    {[]ledger.Requirement{in("tier")}, "needs values"},
		"NotIn without values": {[]ledger.Requirement{{Key: "tier", Operator: ledger.NotIn}}, "needs values"},
		"Exists with values":   {[]ledger.Requirement{{Key: "tier", Operator: ledger.Exists, Values: []string{"x"}}}, "takes no values"},
		"too many":             {many, "33 requirements"},
		"too many values":      {[]ledger.Requirement{in("tier", make([]string, ledger.RequirementValuesMax+1)...)}, "65 values"},
		"a broken value":       {[]ledger.Requirement{in("tier", "\xff")}, "not UTF-8"},
		"the second":           {[]ledger.Requirement{in("tier", "x"), {Key: "tier"}}, "requirement 1:"},
	} {
		t.Run(name, func(t *testing.T) {
			if s, err := ledger.NewSelector(c.requirements...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v; want an error with %q", s, err, c.want)
			}
		})
	}
}
