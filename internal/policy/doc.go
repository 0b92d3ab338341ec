// Package policy compiles and applies policies. [Compile] checks a ClaimCreationPolicy as a whole,
// [ClaimPolicy.Matches] evaluates its CEL conditions, and [ClaimPolicy.Render] makes the claim from its templates: Go
// templates, or texts with CEL expressions in double braces (celtemplate.go). [CompileGrant] and [GrantPolicy] do the
// same for a GrantCreationPolicy. It applies to objects.
//
// Administrators write policies, but every user can write the objects that policies apply to. Therefore applying a
// policy takes bounded time and memory, for any object. It yields a valid claim or an error with the failed field of
// the policy, the position and the reason. Conditions run under the cost limits of the Kubernetes API server. Templates
// have no loops and cannot call each other, and every text and list in a function is bounded (limits.go).
//
// Reading a missing field of an object is an error, and never an empty text: a claim on the consumer "" would be worse
// than none. In CEL, has() checks for the field first. In templates, the function default replaces it. The function
// takes a rewrite of the parsed template (analysis.go), because text/template fails on the missing field before it
// calls default.
//
// The package knows only the API types: no ledger, no registrations, no clusters. Packages catalog and evaluator, the
// webhooks, the controller of grant policies and the command line import it.
package policy
