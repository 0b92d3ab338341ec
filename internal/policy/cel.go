package policy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// conditionEnv is the CEL environment of Kubernetes with the variables of a policy. objectEnv has only the variables
// for the object. They are built on first use, because a process that also runs an API server must set its feature
// gates first.
var (
	conditionEnv = sync.OnceValues(func() (*cel.Env, error) {
		return newEnv(requestVariables(apiservercel.DynType))
	})
	objectEnv = sync.OnceValues(func() (*cel.Env, error) { return newEnv(objectVariables(apiservercel.DynType)) })
)

// objectVariables are the variables for an object of a type.
func objectVariables(object *apiservercel.DeclType) []cel.EnvOption {
	return []cel.EnvOption{
		cel.Variable(varTrigger, object.CelType()),
		cel.Variable(varObject, object.CelType()),
		cel.Variable(varNamespace, cel.DynType),
	}
}

// requestVariables are the variables for an object of a type and for its request.
func requestVariables(object *apiservercel.DeclType) []cel.EnvOption {
	return append(objectVariables(object),
		cel.Variable(varUser, cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable(varRequestInfo, cel.MapType(cel.StringType, cel.DynType)),
	)
}

func newEnv(variables []cel.EnvOption, types ...*apiservercel.DeclType) (*cel.Env, error) {
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	extended, err := base.Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions:        slices.Concat(variables, arithmetic(), podResources(), []cel.EnvOption{hasPath()}),
		DeclTypes:         types,
	})
	if err != nil {
		return nil, fmt.Errorf("set up the CEL environment: %w", err)
	}
	return extended.NewExpressionsEnv(), nil
}

// expression is a compiled CEL expression. It is immutable and safe for concurrent use.
type expression struct {
	path    string
	source  string
	program cel.Program
	uses    uses
}

// compileExpression returns every error of an expression, each with its line and column. sees names the variables of
// the environment. mustYield begins the error for a result of another type than those in yields.
func compileExpression(environ func() (*cel.Env, error), sees string, path *field.Path, source, mustYield string, yields ...*cel.Type) (*expression, field.ErrorList) {
	if utf8.RuneCountInString(source) > expressionCharsMax {
		return nil, field.ErrorList{field.TooLongCharacters(path, source, expressionCharsMax)}
	}
	return compileBounded(environ, sees, path, source, mustYield, yields...)
}

// compileBounded is compileExpression for a source within the bound on length.
func compileBounded(environ func() (*cel.Env, error), sees string, path *field.Path, source, mustYield string, yields ...*cel.Type) (*expression, field.ErrorList) {
	env, err := environ()
	if err != nil {
		return nil, field.ErrorList{field.InternalError(path, err)}
	}
	ast, issues := env.Compile(source)
	if issues.Err() != nil {
		var reasons []string
		for _, issue := range issues.Errors() {
			at := issue.Location
			reasons = append(reasons, fmt.Sprintf("%v: %s", place{at.Line(), at.Column() + 1}, explain(issue.Message, source, sees)))
		}
		return nil, invalid(path, source, reasons)
	}
	if result := ast.OutputType(); !slices.ContainsFunc(yields, result.IsExactType) {
		return nil, field.ErrorList{field.Invalid(path, source, fmt.Sprintf("1:1: %s, not %s", mustYield, result))}
	}
	program, err := env.Program(ast,
		cel.CostLimit(expressionCostMax),
		cel.CustomDecorator(withQuantities),
		cel.InterruptCheckFrequency(interruptCheckEvery))
	if err != nil {
		return nil, field.ErrorList{field.Invalid(path, source, err.Error())}
	}
	return &expression{path: path.String(), source: source, program: program, uses: variablesOf(ast)}, nil
}

// variablesOf returns the variables of an expression.
func variablesOf(ast *cel.Ast) uses {
	read := uses{}
	info := ast.NativeRep().SourceInfo()
	for id, reference := range ast.NativeRep().ReferenceMap() {
		if len(reference.OverloadIDs) == 0 {
			at := info.GetStartLocation(id)
			read.note(reference.Name, place{at.Line(), at.Column() + 1})
		}
	}
	return read
}

// evaluate returns the value of the expression, and its cost. If ctx ends before the value is known, the error wraps
// the cause.
func (e *expression) evaluate(ctx context.Context, variables map[string]any) (value ref.Val, cost uint64, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, e.failed(context.Cause(ctx))
	}
	value, details, err := e.program.ContextEval(ctx, variables)
	if err != nil {
		if exceedsCost(err) {
			err = fmt.Errorf("it costs more than %d units for this object", expressionCostMax)
		} else if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, 0, e.failed(err)
	}
	cost = math.MaxUint64
	if actual := details.ActualCost(); actual != nil {
		cost = *actual
	}
	return value, cost, nil
}

// errTakesTooLong ends an evaluation that takes longer than policyTimeMax.
var errTakesTooLong = fmt.Errorf("the policy's expressions take longer than %v for this object", policyTimeMax)

// TookTooLong reports whether the evaluation of a policy took too long. Unlike other errors, this one may be due to a
// machine that stood still, so the next attempt may succeed.
func TookTooLong(err error) bool { return errors.Is(err, errTakesTooLong) }

func exceedsCost(err error) bool {
	var cancelled interpreter.EvalCancelledError
	return errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded
}

func (e *expression) failed(err error) error {
	return &EvaluationError{Path: e.path, verb: "evaluate", source: e.source, err: shortError{err}}
}

// shortError shortens the message of an error. CEL repeats invalid values from the object, which may be as large as the
// object.
type shortError struct{ error }

func (e shortError) Error() string { return excerpt(e.error.Error()) }

func (e shortError) Unwrap() error { return e.error }

// condition is an expression that yields a boolean.
type condition struct{ expression }

// compileCondition returns every error of an expression, each with its line and column.
func compileCondition(path *field.Path, source, sees string) (*condition, field.ErrorList) {
	if source == "" {
		return nil, field.ErrorList{field.Required(path, "a condition needs a CEL expression")}
	}
	compiled, errs := compileExpression(conditionEnv, sees, path, source, "a condition must yield bool", cel.BoolType, cel.DynType)
	if len(errs) > 0 {
		return nil, errs
	}
	return &condition{*compiled}, nil
}

// evaluate reports whether the condition holds, with the cost.
func (c *condition) evaluate(ctx context.Context, variables map[string]any) (holds bool, cost uint64, err error) {
	value, cost, err := c.expression.evaluate(ctx, variables)
	if err != nil {
		return false, 0, err
	}
	result, ok := value.(types.Bool)
	if !ok {
		return false, cost, c.failed(fmt.Errorf("it yields %s, not bool", value.Type().TypeName()))
	}
	return bool(result), cost, nil
}

// Matches reports whether all conditions of the policy hold. It evaluates them in order and stops at the first that
// does not hold, so a condition may guard later ones. A failed evaluation is an error with the name of the condition: a
// field is missing, the result is not a bool, it costs or takes too much, or ctx ends. The caller should then deny the
// object.
//
// Matches ignores the policy's trigger kind.
func (p *ClaimPolicy) Matches(ctx context.Context, in Input) (bool, error) {
	if len(p.conditions) == 0 {
		return true, nil
	}
	return allHold(ctx, p.conditions, in.variables())
}

// allHold evaluates conditions in order, up to the first false one.
func allHold(ctx context.Context, conditions []*condition, variables map[string]any) (bool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, policyTimeMax, errTakesTooLong)
	defer cancel()
	remaining := uint64(policyCostMax)
	for _, c := range conditions {
		holds, cost, err := c.evaluate(ctx, variables)
		if err != nil {
			return false, err
		}
		if cost > remaining {
			return false, c.failed(fmt.Errorf("up to here the policy's conditions cost more than %d units for this object", policyCostMax))
		}
		if !holds {
			return false, nil
		}
		remaining -= cost
	}
	return true, nil
}
