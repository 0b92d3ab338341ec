// Package allocation decides changes of ResourceQuotas under a ResourceQuotaAllocation: how much of the cap each
// namespace takes, and whether a ResourceQuota may give more. It is pure: no clock, no goroutines, no API server.
// Package allocationstore stores the state; package quotacache observes the cluster.
//
// A member namespace is a namespace that the allocation selects. Of each capped resource it takes the largest amount of
// any of its ResourceQuotas. The [State] has two parts. One is the observed amount of every member namespace, with the
// versions of the cluster at that time. The other is the list of pending changes: admitted and not yet observed. A
// namespace takes the larger of the two amounts. So no change counts twice, and each one counts: every later
// observation includes each admitted change, unless it is still pending.
//
// A change of a ResourceQuota belongs to the resource version before it. Once an observation has the ResourceQuota with
// another version, the change took effect or never will. It is then no longer pending.
package allocation
