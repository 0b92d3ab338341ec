// Package grantpolicy reconciles the grants of GrantCreationPolicies.
//
// The desired state is a grant, or none, for every pair of a policy and an object of its kind. The UIDs of the pair are
// the key throughout the package. The current state are the grants with the labels of a key, in this control plane and
// in every registered one (package remote).
//
//   - The controller watches the objects of the kinds in effective policies. Every change of an object or a policy
//     evaluates the pair: conditions, the name of the control plane, the template. Outcomes are kept in memory.
//   - Each control plane has its own queue and workers, which create, update and delete the grants of a key by its
//     outcome. So an unresponsive control plane delays no other. Local grants are watched. Remote grants are listed
//     every half minute; the list also shows whether the control plane answers. Workers run only while it does.
//   - Each policy has its finalizers and its status reconciled.
//
// If an outcome is unknown (a condition cannot be evaluated, a kind has not been listed, a policy is not ready), the
// grants of the key do not change: an error neither takes nor gives capacity. Only grants known to be undesired are
// deleted.
//
// Only the operator and tests import it.
package grantpolicy
