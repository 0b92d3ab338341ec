// Package quantity turns Kubernetes quantities into integers and text without losing their size. A quantity may be far
// larger than an int64. Then Quantity.Value returns a wrong number, often 0, and Quantity.String a wrong text: it
// writes 1000E as 1, because there is no suffix for 10^21. Any internal package may import it.
package quantity

import (
	"math/big"

	"k8s.io/apimachinery/pkg/api/resource"
)

// milli is the exponent of a thousandth, the smallest part that Kubernetes counts, such as of a core.
const milli = -3

// Proportional returns quantities as integers of one common unit, rounded up, for ratios and comparisons. The unit is a
// thousandth, or the smallest power of a thousand above it in which all of them fit.
func Proportional(quantities ...resource.Quantity) []int64 {
	for exponent := milli; ; exponent -= milli {
		if values, fit := scaled(quantities, exponent); fit {
			return values
		}
	}
}

// scaled returns quantities as multiples of a power of ten, and reports whether all of them fit.
func scaled(quantities []resource.Quantity, exponent int) (values []int64, fit bool) {
	values = make([]int64, 0, len(quantities))
	for _, q := range quantities {
		decimal := q.AsDec() // of the copy
		value := ceiling(decimal.UnscaledBig(), int(decimal.Scale())+exponent)
		if !value.IsInt64() {
			return nil, false
		}
		values = append(values, value.Int64())
	}
	return values, true
}

// ceiling returns a number divided by a power of ten, rounded up.
func ceiling(number *big.Int, exponent int) *big.Int {
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(exponent, -exponent))), nil)
	if exponent <= 0 {
		return power.Mul(power, number)
	}
	whole, rest := new(big.Int).DivMod(number, power, new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	return whole
}

// Text returns a quantity as people write it. If no suffix is large enough, it writes all digits.
func Text(q resource.Quantity) string {
	text := q.String()
	if same, err := resource.ParseQuantity(text); err == nil && same.Cmp(q) == 0 {
		return text
	}
	return q.AsDec().String()
}
