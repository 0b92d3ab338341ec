package quantity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
)

func parse(texts ...string) []resource.Quantity {
	var quantities []resource.Quantity
	for _, text := range texts {
		quantities = append(quantities, resource.MustParse(text))
	}
	return quantities
}

func TestProportional(t *testing.T) {
	for name, tt := range map[string]struct {
		reason     string
		quantities []resource.Quantity
		want       []int64
	}{
		"Small":  {"parts of a core count", parse("500m", "2"), []int64{500, 2000}},
		"Tiny":   {"less than a thousandth is rounded up", parse("1n", "0"), []int64{1, 0}},
		"Exact":  {"2^53 bytes fit in thousandths", parse("8Pi"), []int64{9_007_199_254_740_992_000}},
		"Wholes": {"one of them needs wholes, so all have them", parse("10", "16Pi"), []int64{10, 1 << 54}},
		"Beyond": {"both are beyond 2^63", parse("50E", "100E"), []int64{50_000_000_000_000_000, 100_000_000_000_000_000}},
		"NoSuffix": {
			"more than any suffix can say", parse("900000E", "1000000E"),
			[]int64{900_000_000_000_000_000, 1_000_000_000_000_000_000},
		},
		"Negative": {"what is left may be less than nothing", parse("-50E", "100E"), []int64{-50_000_000_000_000_000, 100_000_000_000_000_000}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Proportional(tt.quantities...)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

// TestProportionalOrder proves that the common unit keeps the order of quantities of any size.
func TestProportionalOrder(t *testing.T) {
	anyQuantity := rapid.Custom(func(t *rapid.T) resource.Quantity {
		digits := rapid.StringMatching(`[1-9][0-9]{0,17}`).Draw(t, "digits")
		return resource.MustParse(digits + rapid.SampledFrom([]string{"m", "", "Ki", "G", "Pi", "E"}).Draw(t, "suffix"))
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyQuantity.Draw(t, "a"), anyQuantity.Draw(t, "b")
		values := Proportional(a, b)
		if order := a.Cmp(b); order < 0 && values[0] > values[1] || order > 0 && values[0] < values[1] || order == 0 && values[0] != values[1] {
			t.Fatalf("%s and %s became %v", Text(a), Text(b), values)
		}
	})
}

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"10": "10", "1500m": "1500m", "2Gi": "2Gi", "100E": "100E", "1000E": "1000000000000000000000", "1e21": "1e21",
	} {
		if got := Text(resource.MustParse(text)); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
