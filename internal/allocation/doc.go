// Package allocation is the books of a ResourceQuotaAllocation: who takes how much of the cap, and whether a
// ResourceQuota may take more. It decides and nothing else: no clock, no goroutines, no API server.
//
// A project is a namespace that the allocation selects. Of each capped resource it takes the largest amount
// that one of its ResourceQuotas gives. The books have that amount for every project as it was observed, at
// versions of the cluster that they name, and beside it the changes that were admitted and not observed
// since. A project takes the larger of the two, so that no change is counted twice and none is missed:
// whichever version is observed later, each change that was admitted is either in it, or still pending.
//
// A change of a ResourceQuota is tied to the resource version that it replaces. Once the ResourceQuota is
// observed with another, the change was made or never will be, and is not pending any more.
package allocation
