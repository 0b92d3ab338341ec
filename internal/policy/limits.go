package policy

import (
	"time"

	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Bounds on conditions.
const (
	// conditionsMax bounds the conditions of a policy.
	conditionsMax = 10
	// expressionCharsMax is the length of the longest condition.
	expressionCharsMax = 1024
	// nameExpressionCharsMax is the length of the longest expression for the name of a control plane.
	nameExpressionCharsMax = 512
	// expressionCostMax bounds the cost of one condition for one object, in CEL cost units. It is a tenth of the API
	// server's own limit. To count the cost, CEL scans everything left by a loop on its stack, so the time grows with
	// the square of the cost. In measurements, 100,000 units took half a second, and 1,000,000 units five seconds,
	// longer than clients wait. A search of a list of 10,000 items takes 60,000 units.
	expressionCostMax = celconfig.PerCallLimit / 10
	// policyCostMax bounds the cost of all conditions of a policy for one object. It is checked after each condition.
	// Expressions for amounts do not count: there are at most requestsMax, and each has its own expressionCostMax.
	policyCostMax = celconfig.RuntimeCELCostBudgetMatchConditions / 10
	// policyTimeMax bounds the time of all conditions of a policy for one object, and separately of all its expressions
	// for amounts, or of the expression for the name of a control plane. Costs do not cover everything: comparing two
	// objects costs little, however large they are.
	policyTimeMax = time.Second
	// interruptCheckEvery is the number of iterations of a loop between two checks of the clock. It has to be 1. Loops
	// share one counter, so with a larger number an outer loop may never check, and may continue despite the
	// interruption of all inner loops.
	interruptCheckEvery = 1
)

// Bounds on templates. Without loops the time to render is at most proportional to the number of function calls,
// bounded by templateBytesMax, times the bound on one call.
const (
	// templateBytesMax is the length of the longest template source.
	templateBytesMax = 4 << 10
	// textBytesMax is the longest text that a function takes or makes.
	textBytesMax = 16 << 10
	// listItemsMax is the longest list that a function walks or makes.
	listItemsMax = 1 << 10
)

// Bounds on the rendered claim or grant.
const (
	// requestsMax bounds the resource types of a claim.
	requestsMax = 20
	// dimensionsMax bounds the dimensions of a request, and dimensionKeyBytesMax the length of a key.
	dimensionsMax        = 16
	dimensionKeyBytesMax = 317
	// nameBytesMax bounds names, namespaces, API groups and dimension values.
	nameBytesMax = 253
	// annotationBytesMax is the length of the longest annotation value.
	annotationBytesMax = 4 << 10
	// annotationsBytesMax bounds all annotations of the template together, keys included.
	annotationsBytesMax = 16 << 10
	// labelsBytesMax bounds all labels of the template together, keys included.
	labelsBytesMax = 16 << 10
)

// Bounds on the text of errors.
const (
	// errorsMax bounds the reported errors of one expression or template.
	errorsMax = 10
	// excerptBytesMax bounds the source, and the cause, in an error.
	excerptBytesMax = 256
)
