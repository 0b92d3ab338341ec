package policy

import (
	"time"

	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Bounds on conditions.
const (
	// conditionsMax is how many conditions a policy may have.
	conditionsMax = 10
	// expressionCharsMax is the length of the longest condition.
	expressionCharsMax = 1024
	// nameExpressionCharsMax is the length of the longest expression for the name of a control plane.
	nameExpressionCharsMax = 512
	// expressionCostMax is what one condition may cost for one object, in CEL cost units. It is a
	// tenth of the API server's own limit: to keep count, CEL looks through all that a loop has
	// left on its stack, so that the time grows with the square of the cost. Half a second is what
	// 100,000 units were seen to take, and five seconds 1,000,000, which no client waits for.
	// A list of 10,000 items can be searched for 60,000 units.
	expressionCostMax = celconfig.PerCallLimit / 10
	// policyCostMax is what all conditions of a policy together may cost for one object. It is
	// checked after each condition. Expressions for amounts do not count: there are at most
	// requestsMax, and each has its own expressionCostMax.
	policyCostMax = celconfig.RuntimeCELCostBudgetMatchConditions / 10
	// policyTimeMax is how long all conditions of a policy together may take for one object, and once
	// more all its expressions for amounts, or that for the name of a control plane. Costs do not
	// cover everything: comparing two objects costs little, however large they are.
	policyTimeMax = time.Second
	// interruptCheckEvery is how many iterations a loop makes between two looks at the clock. It
	// has to be 1. Loops share one counter, so that with a larger number an outer loop may never
	// be the one that looks, and goes on although the inner loops are all interrupted.
	interruptCheckEvery = 1
)

// Bounds on templates. Without loops the time to render is at most proportional to the number of
// function calls, which templateBytesMax bounds, times what one call may handle.
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
	// requestsMax is how many resource types a claim may request.
	requestsMax = 20
	// dimensionsMax is how many dimensions a request may have, and dimensionKeyBytesMax the length
	// of the longest key.
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

// Bounds on what errors show.
const (
	// errorsMax is how many faults of one expression or template are reported.
	errorsMax = 10
	// excerptBytesMax is how much of its source, and of its cause, an error shows.
	excerptBytesMax = 256
)
