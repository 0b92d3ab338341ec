package policy

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// constantTimeMax bounds the evaluation of all constant expressions of a policy.
const constantTimeMax = time.Second

// ConstantErrors evaluates the expressions and templates without a read of the object or request. Such an expression
// fails for every object or none, so its error is an error of the policy.
//
// It is not part of [Compile]: a policy stored before the check must still deny objects instead of letting them pass.
func (p *ClaimPolicy) ConstantErrors(ctx context.Context) field.ErrorList {
	ctx, cancel := context.WithTimeout(ctx, constantTimeMax)
	defer cancel()
	var errs field.ErrorList
	note := func(path, source string, err error) {
		var evaluation *EvaluationError
		if ctx.Err() != nil || !errors.As(err, &evaluation) {
			return
		}
		errs = append(errs, &field.Error{Type: field.ErrorTypeInvalid, Field: path, BadValue: excerpt(source), Detail: evaluation.err.Error()})
	}
	for _, c := range p.conditions {
		if len(c.uses) == 0 {
			_, _, err := c.evaluate(ctx, nil)
			note(c.path, c.source, err)
		}
	}
	var templates []*templateField
	for i := range p.requests {
		if amount := p.requests[i].expression; amount != nil && len(amount.uses) == 0 {
			_, err := amount.evaluate(ctx, nil, "")
			note(amount.path, amount.source, err)
		}
		templates = append(templates, fieldsOf(p.requests[i].dimensions)...)
	}
	for _, f := range append(templatesOf(&p.metadataFields, &p.consumer), templates...) {
		if f.template != nil && !f.template.isText() && len(f.template.uses) == 0 {
			_, err := f.render(ctx, nil)
			note(f.path, f.template.source, err)
		}
	}
	return errs
}
