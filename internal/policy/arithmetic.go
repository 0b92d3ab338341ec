package policy

import (
	"math"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/api/resource"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// arithmetic declares operations on quantities beyond the library of Kubernetes. They multiply quantities by whole
// numbers, and add, subtract and compare them with each other and with whole numbers. They also make quantities of
// whole numbers, sum lists of them, find the largest of a list, and round them up.
//
// The operators have no bindings here, since those of CEL have one for all types each; [arithmeticCall] evaluates them.
func arithmetic() []cel.EnvOption {
	q, i := apiservercel.QuantityType, cel.IntType
	options := []cel.EnvOption{
		cel.Function(operators.Multiply, overload("multiply_quantity_int", q, q, i), overload("multiply_int_quantity", q, i, q)),
		cel.Function("quantity", cel.Overload("int_to_quantity", []*cel.Type{i}, q, cel.UnaryBinding(quantityOfInt))),
		cel.Function("sum", cel.MemberOverload("list_quantity_sum", []*cel.Type{cel.ListType(q)}, q, cel.UnaryBinding(sumOfQuantities))),
		cel.Function("max", cel.MemberOverload("list_quantity_max", []*cel.Type{cel.ListType(q)}, q, cel.UnaryBinding(largestQuantity))),
		cel.Function("roundUp",
			cel.Overload("round_up_double", []*cel.Type{cel.DoubleType}, i, cel.UnaryBinding(roundUpDouble)),
			cel.Overload("round_up_int", []*cel.Type{i}, i, cel.UnaryBinding(func(v ref.Val) ref.Val { return v })),
			cel.Overload("round_up_quantity", []*cel.Type{q}, q, cel.UnaryBinding(roundUpQuantity))),
	}
	for name, function := range map[string]string{"add": operators.Add, "subtract": operators.Subtract} {
		options = append(options, cel.Function(function, mixed(name, q)...))
	}
	for name, function := range map[string]string{
		"less": operators.Less, "less_equals": operators.LessEquals, "greater": operators.Greater, "greater_equals": operators.GreaterEquals,
	} {
		options = append(options, cel.Function(function, mixed(name, cel.BoolType)...))
	}
	return options
}

// mixed declares an operator on two quantities, and on a quantity and a whole number in either order.
func mixed(name string, result *cel.Type) []cel.FunctionOpt {
	q, i := apiservercel.QuantityType, cel.IntType
	return []cel.FunctionOpt{
		overload(name+"_quantity", result, q, q), overload(name+"_quantity_int", result, q, i), overload(name+"_int_quantity", result, i, q),
	}
}

func overload(id string, result *cel.Type, arguments ...*cel.Type) cel.FunctionOpt {
	return cel.Overload(id, arguments, result)
}

func quantityOfInt(value ref.Val) ref.Val {
	n, ok := value.(types.Int)
	if !ok {
		return types.MaybeNoSuchOverloadErr(value)
	}
	return apiservercel.Quantity{Quantity: resource.NewQuantity(int64(n), resource.DecimalSI)}
}

func sumOfQuantities(value ref.Val) ref.Val {
	list, err := quantitiesOf("sum", value)
	if err != nil {
		return err
	}
	var sum resource.Quantity
	for _, item := range list {
		sum.Add(item)
	}
	return apiservercel.Quantity{Quantity: &sum}
}

func largestQuantity(value ref.Val) ref.Val {
	list, err := quantitiesOf("max", value)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return types.NewErr("max: the list is empty")
	}
	largest := slices.MaxFunc(list, func(a, b resource.Quantity) int { return a.Cmp(b) }).DeepCopy()
	return apiservercel.Quantity{Quantity: &largest}
}

// quantitiesOf returns the items of a list. The error is nil if all are quantities.
func quantitiesOf(function string, value ref.Val) (all []resource.Quantity, err ref.Val) {
	list, ok := value.(traits.Lister)
	if !ok {
		return nil, types.MaybeNoSuchOverloadErr(value)
	}
	for it := list.Iterator(); it.HasNext() == types.True; {
		item, ok := it.Next().(apiservercel.Quantity)
		if !ok {
			return nil, types.NewErr("%s: an item of the list is not a quantity", function)
		}
		all = append(all, *item.Quantity)
	}
	return all, nil
}

func roundUpDouble(value ref.Val) ref.Val {
	number, ok := value.(types.Double)
	if !ok {
		return types.MaybeNoSuchOverloadErr(value)
	}
	const exactMax = 1 << 53
	up := math.Ceil(float64(number))
	if math.IsNaN(up) || math.Abs(up) > exactMax {
		return types.NewErr("roundUp: %v cannot be rounded to a whole number", float64(number))
	}
	return types.Int(up)
}

func roundUpQuantity(value ref.Val) ref.Val {
	quantity, ok := value.(apiservercel.Quantity)
	if !ok {
		return types.MaybeNoSuchOverloadErr(value)
	}
	up := quantity.DeepCopy()
	up.RoundUp(0)
	return apiservercel.Quantity{Quantity: &up}
}

// isArithmetic has the operators that [arithmeticCall] evaluates.
var isArithmetic = map[string]bool{
	operators.Multiply: true, operators.Add: true, operators.Subtract: true,
	operators.Less: true, operators.LessEquals: true, operators.Greater: true, operators.GreaterEquals: true,
}

// arithmeticCall is an operator on quantities or other operands.
type arithmeticCall struct{ interpreter.InterpretableCall }

// Eval implements [interpreter.Interpretable].
func (c arithmeticCall) Eval(activation interpreter.Activation) ref.Val {
	operands := c.Args()
	left := operands[0].Eval(activation)
	right := operands[1].Eval(activation)
	switch {
	case types.IsUnknownOrError(left):
		return left
	case types.IsUnknownOrError(right):
		return right
	}
	_, leftIs := left.(apiservercel.Quantity)
	_, rightIs := right.(apiservercel.Quantity)
	if !leftIs && !rightIs {
		return standard(c.Function(), left, right)
	}
	x, xIsNumber := quantityOf(left)
	y, yIsNumber := quantityOf(right)
	if !xIsNumber || !yIsNumber {
		return types.MaybeNoSuchOverloadErr(left)
	}
	switch c.Function() {
	case operators.Multiply:
		return product(left, right)
	case operators.Add:
		x.Add(y)
		return apiservercel.Quantity{Quantity: &x}
	case operators.Subtract:
		x.Sub(y)
		return apiservercel.Quantity{Quantity: &x}
	default:
		return compared(c.Function(), types.Int(x.Cmp(y)))
	}
}

// product multiplies a quantity and an integer, in either order. Two quantities have no product.
func product(left, right ref.Val) ref.Val {
	if _, ok := left.(types.Int); ok {
		left, right = right, left
	}
	factor, ok := right.(types.Int)
	if !ok {
		return types.MaybeNoSuchOverloadErr(left)
	}
	value, _ := quantityOf(left)
	value.Mul(int64(factor))
	return apiservercel.Quantity{Quantity: &value}
}

// quantityOf returns a quantity or an integer as a quantity for the caller to change. It reports false for other
// values.
func quantityOf(value ref.Val) (resource.Quantity, bool) {
	switch value := value.(type) {
	case apiservercel.Quantity:
		return value.DeepCopy(), true
	case types.Int:
		return *resource.NewQuantity(int64(value), resource.DecimalSI), true
	}
	return resource.Quantity{}, false
}

// standard evaluates an operator as CEL does.
func standard(function string, left, right ref.Val) ref.Val {
	switch function {
	case operators.Multiply:
		if operand, ok := left.(traits.Multiplier); ok {
			return operand.Multiply(right)
		}
	case operators.Add:
		if operand, ok := left.(traits.Adder); ok {
			return operand.Add(right)
		}
	case operators.Subtract:
		if operand, ok := left.(traits.Subtractor); ok {
			return operand.Subtract(right)
		}
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		if operand, ok := left.(traits.Comparer); ok {
			return compared(function, operand.Compare(right))
		}
	}
	return types.MaybeNoSuchOverloadErr(left)
}

// compared turns the order of two values into the value of a comparison. It returns an order that is not an integer
// unchanged, as an error.
func compared(function string, order ref.Val) ref.Val {
	n, ok := order.(types.Int)
	if !ok {
		return order
	}
	switch function {
	case operators.Less:
		return types.Bool(n < 0)
	case operators.LessEquals:
		return types.Bool(n <= 0)
	case operators.Greater:
		return types.Bool(n > 0)
	default:
		return types.Bool(n >= 0)
	}
}
