// Package allocationstore stores the states of ResourceQuotaAllocations: their observed usage in the status, and
// admitted changes of ResourceQuotas in AllocationLedgers until the status has them.
//
// Each allocation has a committer, a [groupcommit.Group]: a check and its record are one compare-and-swap. Package
// ledgerstore does the same for consumers. Unlike a consumer's ledger, an allocation follows a watch: nobody settles or
// releases changes one by one, and a denial has nothing to wait for.
//
// The webhook on ResourceQuotas and the allocation controller import this package, never the reverse.
package allocationstore
