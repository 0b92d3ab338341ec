// Package allocationstore stores what ResourceQuotaAllocations have given out: in their status, and in AllocationLedgers for
// changes of ResourceQuotas that were admitted and are not in the status yet.
//
// Each allocation has a committer, which is a [groupcommit.Group]: a check and its record are one compare-and-swap. Package
// ledgerstore does the same for consumers. Unlike a consumer's ledger, an allocation follows a watch: nothing is settled or
// released one by one, and a denial has nothing to wait for.
package allocationstore
