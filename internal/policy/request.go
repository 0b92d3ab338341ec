package policy

import (
	"context"
	"sync"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiservercel "k8s.io/apiserver/pkg/cel"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// The variables of a QuotaRequestPolicy.
const (
	varRequest  = "request"
	varConsumer = "consumer"
	varAsks     = "asks"
)

// seesQuotaRequest names the variables of a QuotaRequestPolicy in errors.
const seesQuotaRequest = "request, consumer and asks"

var quotaRequestEnv = sync.OnceValues(func() (*cel.Env, error) {
	return newEnv([]cel.EnvOption{
		cel.Variable(varRequest, cel.DynType),
		cel.Variable(varConsumer, cel.DynType),
		cel.Variable(varAsks, cel.ListType(askType.CelType())),
	}, askType)
})

// askType is the type of an [Ask]. With a type, a wrong field name is an error of the policy and not of each request.
var askType = apiservercel.NewObjectType("ask", map[string]*apiservercel.DeclField{
	"resourceType": apiservercel.NewDeclField("resourceType", apiservercel.StringType, true, nil, nil),
	"dimensions":   apiservercel.NewDeclField("dimensions", apiservercel.NewMapType(apiservercel.StringType, apiservercel.StringType, dimensionsMax), true, nil, nil),
	"increase":     apiservercel.NewDeclField("increase", apiservercel.IntType, true, nil, nil),
	"limit":        apiservercel.NewDeclField("limit", apiservercel.IntType, true, nil, nil),
	"wanted":       apiservercel.NewDeclField("wanted", apiservercel.IntType, true, nil, nil),
	"used":         apiservercel.NewDeclField("used", apiservercel.IntType, true, nil, nil),
	"available":    apiservercel.NewDeclField("available", apiservercel.IntType, true, nil, nil),
	"total":        apiservercel.NewDeclField("total", apiservercel.IntType, true, nil, nil),
})

// RequestPolicy is a compiled QuotaRequestPolicy. It is immutable and safe for concurrent use.
type RequestPolicy struct {
	// conditions has nil for a rule without one.
	conditions   []*condition
	usesConsumer bool
}

// RequestInput is the input of a QuotaRequestPolicy. Policies only read it.
type RequestInput struct {
	// Request is the QuotaRequest as decoded from JSON.
	Request map[string]any
	// Consumer is the consumer's object, in the same form. It is nil if there is none.
	Consumer map[string]any
	// Asks are the requested amounts.
	Asks []Ask
}

// Ask is a requested amount, with the figures of the quota for claims with its dimensions. Amounts are in base units.
type Ask struct {
	// ResourceType (resourceType) and Dimensions (dimensions) are those of the request.
	ResourceType string
	Dimensions   map[string]string
	// Increase (increase) is how much more a claim with the dimensions could use through the whole request.
	Increase int64
	// Limit (limit) is the quota for all claims with the dimensions, with approved increases not in it yet. Wanted
	// (wanted) is the largest limit of a claim with the dimensions after the increase.
	Limit, Wanted int64
	// Used (used) is what claims of any dimensions take of the limit, and Available (available) the rest for a claim
	// with the dimensions.
	Used, Available int64
	// Total (total) is the sum of these limits of all consumers.
	Total int64
}

// CompileRequest checks the expressions of a policy. Errors are as those of [Compile].
func CompileRequest(policy *quotav1alpha1.QuotaRequestPolicy) (*RequestPolicy, field.ErrorList) {
	p := &RequestPolicy{}
	var errs field.ErrorList
	for i := range policy.Spec.Rules {
		source := policy.Spec.Rules[i].Condition
		if source == "" {
			p.conditions = append(p.conditions, nil)
			continue
		}
		path := field.NewPath("spec", "rules").Index(i).Child("condition")
		compiled, wrong := compileExpression(quotaRequestEnv, seesQuotaRequest, path, source, "a condition must yield bool", cel.BoolType, cel.DynType)
		if len(wrong) > 0 {
			errs = append(errs, wrong...)
			continue
		}
		p.conditions = append(p.conditions, &condition{*compiled})
		p.usesConsumer = p.usesConsumer || compiled.uses.has(varConsumer)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return p, nil
}

// UsesConsumer reports whether a condition reads the consumer's object.
func (p *RequestPolicy) UsesConsumer() bool { return p.usesConsumer }

// Rule returns the index of the first rule with a true condition, or -1. A failed evaluation of a condition is an
// error, as with [ClaimPolicy.Matches].
func (p *RequestPolicy) Rule(ctx context.Context, in RequestInput) (int, error) {
	variables := in.variables()
	ctx, cancel := context.WithTimeoutCause(ctx, policyTimeMax, errTakesTooLong)
	defer cancel()
	for i, c := range p.conditions {
		if c == nil {
			return i, nil
		}
		holds, _, err := c.evaluate(ctx, variables)
		if err != nil {
			return -1, err
		}
		if holds {
			return i, nil
		}
	}
	return -1, nil
}

func (in *RequestInput) variables() map[string]any {
	asks := make([]map[string]any, len(in.Asks))
	for i := range in.Asks {
		a := &in.Asks[i]
		asks[i] = map[string]any{
			"resourceType": a.ResourceType, "dimensions": a.Dimensions, "increase": a.Increase,
			"limit": a.Limit, "wanted": a.Wanted, "used": a.Used, "available": a.Available, "total": a.Total,
		}
	}
	variables := map[string]any{varRequest: in.Request, varConsumer: nil, varAsks: asks}
	if in.Consumer != nil {
		variables[varConsumer] = Visible(in.Consumer)
	}
	return variables
}
