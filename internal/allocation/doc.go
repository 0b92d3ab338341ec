// Package allocation decides changes of ResourceQuotas under a ResourceQuotaAllocation: which namespace takes how much
// of the cap, and whether a ResourceQuota may give more. It is pure: no clock, no goroutines, no API server. Package
// allocationstore stores the state; package quotacache observes the cluster.
//
// A member namespace is a namespace that the allocation selects. Of each capped resource it takes the largest amount of
// any of its ResourceQuotas. The [State] has two parts. One is the observed amount of every member namespace, with the
// versions of the cluster at that time. The other is the list of pending changes: admitted and not yet observed. A
// namespace takes the larger of the two amounts, so that no change counts twice and none is missed: in every later
// observation each admitted change is either included or still pending.
//
// A change of a ResourceQuota is tied to the resource version that it replaces. Once the ResourceQuota is observed with
// another version, the change was made or never will be. It is then no longer pending.
package allocation
