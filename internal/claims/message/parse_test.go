package message

import (
	"math"
	"strings"
	"testing"

	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/ledger"
)

func TestParseAmount(t *testing.T) {
	maps := &catalog.Registration{DisplayUnit: "map", BaseUnit: "map", Factor: 1}
	memory := &catalog.Registration{DisplayUnit: "GiB", BaseUnit: "byte", Factor: 1 << 30}
	mebibytes := &catalog.Registration{DisplayUnit: "GiB", BaseUnit: "MiB", Factor: 1 << 10}
	cpu := &catalog.Registration{DisplayUnit: "vCPU", BaseUnit: "millicore", Factor: 1000}
	for name, tt := range map[string]struct {
		text string
		of   *catalog.Registration
		want ledger.Amount
		err  string
	}{
		"a number is in display units":    {"10", maps, 10, ""},
		"the plural":                      {"10 maps", maps, 10, ""},
		"the singular":                    {"10 map", maps, 10, ""},
		"without a space":                 {"1.5GiB", memory, 3 << 29, ""},
		"a smaller unit of bytes":         {"512 MiB", memory, 512 << 20, ""},
		"the unit as Kubernetes has it":   {"5Gi", memory, 5 << 30, ""},
		"a decimal unit":                  {"1 GB", memory, 1e9, ""},
		"base units":                      {"7 bytes", memory, 7, ""},
		"a larger base unit":              {"1 TiB", mebibytes, 1 << 20, ""},
		"a part of a unit":                {"0.5 vCPU", cpu, 500, ""},
		"bytes of an unknown base unit":   {"7 bytes", &catalog.Registration{DisplayUnit: "GiB", Factor: 1 << 30}, 7, ""},
		"millicores":                      {"250 millicores", cpu, 250, ""},
		"the largest":                     {"9223372036854775807", maps, math.MaxInt64, ""},
		"nothing":                         {"0", maps, 0, ""},
		"no number":                       {"many", maps, 0, `"many" is not an amount such as 1 map`},
		"empty":                           {"", maps, 0, "is not an amount"},
		"negative":                        {"-1", maps, 0, "is not an amount"},
		"an exponent":                     {"1e9", maps, 0, "unknown unit"},
		"a long number":                   {strings.Repeat("9", 1000), maps, 0, "is not an amount"},
		"another unit":                    {"10 cores", maps, 0, "unknown unit: give an amount such as 1 map"},
		"bytes of what is not in bytes":   {"10 GiB", cpu, 0, "unknown unit"},
		"a part of a base unit":           {"0.5 maps", maps, 0, "is not a whole number of maps"},
		"too large":                       {"9223372036854775808", maps, 0, "is too large"},
		"too large with its unit":         {"9223372036 TiB", memory, 0, "is too large"},
		"too small a part of a base unit": {"1 KiB", mebibytes, 0, "is not a whole number of MiB"},
	} {
		got, err := ParseAmount(tt.text, tt.of)
		if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: got the error %v, want %q", name, err, tt.err)
		}
		if got != tt.want {
			t.Errorf("%s: got %d, want %d", name, got, tt.want)
		}
	}
}

// Users can enter every displayed amount, unless the text cuts digits.
func TestParseAmountOfAmount(t *testing.T) {
	for _, r := range []*catalog.Registration{
		{DisplayUnit: "map", BaseUnit: "map", Factor: 1}, {DisplayUnit: "GiB", BaseUnit: "byte", Factor: 1 << 30},
		{DisplayUnit: "vCPU", BaseUnit: "millicore", Factor: 1000}, {DisplayUnit: "policy", Factor: 1}, {DisplayUnit: "", Factor: 1},
	} {
		for _, amount := range []ledger.Amount{0, 1, 2, 3, 999, 1000, 1 << 20, 3 << 29, 1 << 30, 1e15, math.MaxInt64} {
			text := strings.TrimSpace(Amount(amount, r))
			if strings.HasPrefix(text, "~") {
				continue
			}
			if got, err := ParseAmount(text, r); err != nil || got != amount {
				t.Errorf("%q: got %d, %v, want %d", text, got, err, amount)
			}
		}
	}
}
