// Package grantpolicy makes the grants that GrantCreationPolicies ask for, and keeps them so.
//
// It compares what should be with what is. What should be is a grant, or none, for every pair of a
// policy and an object of its kind; the pair, by their UIDs, is the key of everything here. What is
// are the grants that carry the labels of such a key, in this control plane and in every other one
// that is registered (package planes).
//
//   - Objects of the kinds that policies in force name are watched. Every change of an object or a
//     policy has the pair evaluated: conditions, the name of the control plane, the template. The
//     outcome is kept in memory.
//   - Each control plane has a queue and workers of its own, which make the grants of a key there
//     what its outcome says: create, update, delete. So one that does not answer holds up no other.
//     Grants in this control plane are watched; those in others are listed every half minute, which
//     also tells whether the control plane answers. Only then are its workers at work.
//   - Each policy has its finalizers and its status kept.
//
// Where an outcome is not known (a condition cannot be evaluated, a kind has not been listed, a
// policy is not ready), the grants of the key are left as they are: nobody loses capacity because
// something is broken, and nobody gains any. Only what is known not to be wanted is deleted.
package grantpolicy
