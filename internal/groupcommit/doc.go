// Package groupcommit decides operations on a stored state in batches, and stores the changes by compare-and-swap.
//
// A [Group] is the only writer of a state in this process; other processes may have groups of their own. During a
// write, operations queue up. The group then takes all of them and applies them in order of arrival to a copy of the
// state in memory. It writes the copy once, on the condition that nobody changed the stored state since the group read
// it. Success acknowledges the whole batch. On a conflict, or when the outcome is unknown, the group reads the state
// and decides the whole batch again. So operations must be idempotent: repeating one after a successful write changes
// nothing.
//
// An operation that changes nothing may still need the current state for its answer, such as a denial. The group then
// compares the version of its copy with the stored one.
//
// Most operations have a caller, see [Group.Do]. Housekeeping has none: [Group.Defer] lets it ride along with the next
// commit, up to its maximum delay, and tries it again until it took effect. A question may leave it deferred.
// An operation may also postpone itself until another one makes room.
//
// The package knows neither ledgers nor Kubernetes. The stores of consumer ledgers and of allocations build on it.
package groupcommit
