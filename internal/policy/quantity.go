package policy

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// withQuantities makes operators work on quantities. It also protects CEL's quantity functions from texts that take
// hours to parse. Nothing could interrupt such a parse. It is an [interpreter.InterpretableDecorator].
func withQuantities(i interpreter.Interpretable) (interpreter.Interpretable, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if ok && len(call.Args()) == 2 && isArithmetic[call.Function()] {
		return arithmeticCall{call}, nil
	}
	if !ok || len(call.Args()) != 1 {
		return i, nil
	}
	switch call.Function() {
	case "quantity":
		return guardedCall{call, func(text string) ref.Val { return types.NewErr("%.40q is not a quantity", text) }}, nil
	case "isQuantity":
		return guardedCall{call, func(string) ref.Val { return types.False }}, nil
	default:
		return i, nil
	}
}

// guardedCall is the call of a function, skipped for texts other than quantities.
type guardedCall struct {
	interpreter.InterpretableCall
	otherwise func(text string) ref.Val
}

// Eval implements [interpreter.Interpretable].
func (g guardedCall) Eval(activation interpreter.Activation) ref.Val {
	if text, ok := g.Args()[0].Eval(activation).(types.String); ok && !quantityForm.MatchString(string(text)) {
		return g.otherwise(string(text))
	}
	return g.InterpretableCall.Eval(activation)
}
