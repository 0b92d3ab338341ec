package message

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strings"

	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/ledger"
)

// amountText matches a number with a unit. A bound limits its length, because a big number takes long to multiply.
var amountText = regexp.MustCompile(`^([0-9]{1,19}(?:\.[0-9]{1,18})?) ?(\pL[\pL\pM0-9 ./_-]{0,59})?$`)

// ParseAmount parses an amount as [Amount] writes it, such as "2 projects" or "1.5 GiB". A number without a unit is
// in display units. The error names the possible amounts.
func ParseAmount(text string, r *catalog.Registration) (ledger.Amount, error) {
	match := amountText.FindStringSubmatch(text)
	if match == nil {
		return 0, fmt.Errorf("%q is not an amount such as %s", text, Amount(ledger.Amount(max(r.Factor, 1)), r))
	}
	size := sizeOf(strings.TrimSpace(match[2]), r)
	if size == nil {
		return 0, fmt.Errorf("%q has an unknown unit: give an amount such as %s", text, Amount(ledger.Amount(max(r.Factor, 1)), r))
	}
	value, isNumber := new(big.Rat).SetString(match[1])
	if !isNumber {
		return 0, fmt.Errorf("%q is not a number", match[1])
	}
	value.Mul(value, size)
	switch {
	case value.Cmp(new(big.Rat).SetInt64(math.MaxInt64)) > 0:
		return 0, fmt.Errorf("%q is too large: give at most %s", text, Amount(math.MaxInt64, r))
	case !value.IsInt():
		base := r.BaseUnit
		if base == "" {
			base = "base unit"
		}
		return 0, fmt.Errorf("%q is not a whole number of %s", text, unit("2", base))
	}
	return ledger.Amount(value.Num().Int64()), nil
}

// sizeOf returns the number of base units in a unit, or nil if the registration has no such unit.
func sizeOf(name string, r *catalog.Registration) *big.Rat {
	factor := big.NewRat(max(r.Factor, 1), 1)
	is := func(known string) bool {
		return known != "" && (name == known || name == unit("2", known) || name == unit("1", known))
	}
	switch {
	case name == "" || is(r.DisplayUnit):
		return factor
	case is(r.BaseUnit):
		return big.NewRat(1, 1)
	}
	wanted, display := bytesIn(name), bytesIn(r.DisplayUnit)
	if wanted == 0 || display == 0 {
		return nil
	}
	return factor.Mul(factor, big.NewRat(wanted, display))
}

// bytesIn returns the size of a unit of bytes, or 0 for others.
func bytesIn(name string) int64 {
	if name == "B" || name == "byte" || name == "bytes" {
		return 1
	}
	for _, family := range byteUnits {
		if size := family[name]; size > 0 {
			return size
		}
	}
	return 0
}
