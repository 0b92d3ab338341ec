// Package grantpolicy reconciles the grants of GrantCreationPolicies.
//
// The desired state is a grant, or none, for every pair of a policy and an object of its kind. The UIDs of the pair are
// the key throughout the package. The current state are the grants with the labels of a key, in this control plane and
// in every registered one (package remote).
//
//   - The controller watches the objects of the kinds in effective policies. Every change of an object or a policy
//     evaluates the pair: conditions, the name of the control plane, the template. The controller keeps outcomes in
//     memory.
//   - Each control plane has its own queue and workers. They create, update and delete the grants of a key by its
//     outcome. So an unresponsive control plane delays no other. The controller watches local grants. It lists remote
//     grants every half minute; the list also shows whether the control plane answers. Workers run only while it does.
//   - The controller reconciles the finalizers and the status of each policy.
//
// An outcome is unknown if the evaluation of a condition fails, there is no list of the kind yet, or the policy is not
// ready. Then the grants of the key do not change: an error neither takes nor gives capacity. The controller deletes
// only certainly undesired grants.
//
// Only the operator and tests import it.
package grantpolicy
