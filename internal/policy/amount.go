package policy

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiservercel "k8s.io/apiserver/pkg/cel"

	quantitytext "github.com/bursar/bursar/internal/quantity"
)

// amountExpression is a CEL expression that yields an amount of base units.
type amountExpression struct{ expression }

// amountTypes are the permitted types of an amount.
var amountTypes = []*cel.Type{cel.IntType, cel.UintType, cel.DoubleType, cel.StringType, apiservercel.QuantityType, cel.DynType}

func compileAmount(path *field.Path, source string) (*amountExpression, field.ErrorList) {
	compiled, errs := compileExpression(objectEnv, seesObject, path, source, "an amount must yield a number or a quantity", amountTypes...)
	if len(errs) > 0 {
		return nil, errs
	}
	return &amountExpression{*compiled}, nil
}

// evaluate returns the amount in base units. baseUnit is the name of the base unit. The amount is never negative.
func (a *amountExpression) evaluate(ctx context.Context, variables map[string]any, baseUnit string) (int64, error) {
	value, _, err := a.expression.evaluate(ctx, variables)
	if err != nil {
		return 0, err
	}
	amount, err := amountOf(value, baseUnit)
	if err == nil && amount < 0 {
		err = fmt.Errorf("it yields %d, which is negative", amount)
	}
	if err != nil {
		return 0, a.failed(err)
	}
	return amount, nil
}

// amountOf returns numbers as base units, and converts quantities to them.
func amountOf(value ref.Val, baseUnit string) (int64, error) {
	switch v := value.(type) {
	case types.Int:
		return int64(v), nil
	case types.Uint:
		if v > math.MaxInt64 {
			return 0, fmt.Errorf("it yields %d, which is more than can be counted", v)
		}
		return int64(v), nil
	case types.Double:
		const exactMax = 1 << 53
		if v != types.Double(math.Trunc(float64(v))) || math.Abs(float64(v)) > exactMax {
			return 0, fmt.Errorf("it yields %v, which is not a whole number of base units", float64(v))
		}
		return int64(v), nil
	case types.String:
		quantity, err := parseQuantity(string(v))
		if err != nil {
			return 0, err
		}
		return toBaseUnits(quantity, baseUnit)
	default:
		if quantity, ok := value.Value().(*resource.Quantity); ok {
			return toBaseUnits(*quantity, baseUnit)
		}
		return 0, fmt.Errorf("it yields %s, not a number or a quantity", value.Type().TypeName())
	}
}

// quantityForm bounds quantities. A quantity with a larger exponent could take hours to parse.
var quantityForm = regexp.MustCompile(`^[+-]?[0-9.]{1,40}([eE][+-]?[0-9]{1,2}|[numkMGTPE]|[KMGTPE]i)?$`)

func parseQuantity(text string) (resource.Quantity, error) {
	if quantityForm.MatchString(text) {
		if quantity, err := resource.ParseQuantity(text); err == nil {
			return quantity, nil
		}
	}
	return resource.Quantity{}, fmt.Errorf("it yields the text %.40q, which is not a quantity", text)
}

// baseUnits has the number of base units in a whole, for base units other than wholes. smallUnits has it for the
// prefixes of base units that match smallUnit.
var (
	baseUnits = map[string]*big.Rat{
		"kB": big.NewRat(1, 1e3), "MB": big.NewRat(1, 1e6), "GB": big.NewRat(1, 1e9), "TB": big.NewRat(1, 1e12), "PB": big.NewRat(1, 1e15),
		"KiB": big.NewRat(1, 1<<10), "MiB": big.NewRat(1, 1<<20), "GiB": big.NewRat(1, 1<<30), "TiB": big.NewRat(1, 1<<40), "PiB": big.NewRat(1, 1<<50),
	}
	smallUnit  = regexp.MustCompile(`(?i)^(milli|micro|nano)-?(core|cpu|vcpu|unit|second|byte|bit)s?$`)
	smallUnits = map[string]*big.Rat{"milli": big.NewRat(1e3, 1), "micro": big.NewRat(1e6, 1), "nano": big.NewRat(1e9, 1)}
)

func perWhole(baseUnit string) *big.Rat {
	if factor, ok := baseUnits[baseUnit]; ok {
		return factor
	}
	if parts := smallUnit.FindStringSubmatch(baseUnit); parts != nil {
		return smallUnits[strings.ToLower(parts[1])]
	}
	return big.NewRat(1, 1)
}

// toBaseUnits converts a quantity to base units, rounded up.
func toBaseUnits(quantity resource.Quantity, baseUnit string) (int64, error) {
	decimal := quantity.AsDec()
	value := new(big.Rat).SetInt(decimal.UnscaledBig())
	power := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(decimal.Scale(), -decimal.Scale()))), nil))
	if decimal.Scale() > 0 {
		power.Inv(power)
	}
	value.Mul(value, power).Mul(value, perWhole(baseUnit))
	whole, rest := new(big.Int).DivMod(value.Num(), value.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	if !whole.IsInt64() {
		return 0, fmt.Errorf("it yields %s, which is more than can be counted", quantitytext.Text(quantity))
	}
	return whole.Int64(), nil
}
