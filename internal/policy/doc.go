// Package policy turns a ClaimCreationPolicy into something that can be applied to a request:
// [Compile] checks a policy as a whole, [ClaimPolicy.Matches] evaluates its CEL conditions and
// [ClaimPolicy.Render] makes the claim from its Go templates. [CompileGrant] and [GrantPolicy] do
// the same for a GrantCreationPolicy, which is applied to objects.
//
// Policies are written by administrators, but what they are applied to comes from anyone. So
// whatever an object holds, applying a policy takes bounded time and memory, and yields a valid
// claim or an error that says which field of the policy failed, where, and why. Conditions run
// under the cost limits of the Kubernetes API server. Templates have no loops and cannot call one
// another, and every text and list that a function handles is bounded (limits.go).
//
// A field that an object does not have is an error wherever a policy reads it, never an empty
// text: a claim that charges the consumer "" would be worse than none. In CEL, has() asks for it
// first. In templates, the function default replaces it; that takes a rewrite of the parsed
// template (analysis.go), since text/template fails on the missing field before default is called.
//
// The package knows the API types and nothing of the ledger, of registrations or of clusters.
package policy
