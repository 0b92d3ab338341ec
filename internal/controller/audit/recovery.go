package audit

import (
	"context"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/ledger"
)

// Recovery finds out what consumers use that have no ledger.
type Recovery struct {
	Claims *claimcache.Cache
	Live   Live
}

// Usage computes the usage of a consumer from its granted claims, for when it has no ledger.
//
// To grant and to release is to write to the ledger, so none of that happens between the look at the claims and
// the first ledger; and if another replica has made one meanwhile, that is read in place of this one written.
//
// Until the claims are in memory, the API server is asked for those of the consumer, as they are now. It has no
// index for them: it compares the selected fields of all claims, which it keeps beside each in its watch cache
// (a millisecond for 1,000 claims), and says to try again while it loads that itself. Later memory is asked,
// because all ledgers may be lost at once, and because many thousand claims of one consumer cannot be listed in
// the time that a decision has. Memory may lag behind claims that were granted moments before a ledger was
// lost; the audit charges those.
func (r Recovery) Usage(ctx context.Context, consumer quotav1alpha1.ConsumerRef) ([]ledger.Usage, error) {
	if r.Claims.HasSynced() {
		return Usage(r.Claims.ForConsumer(consumer, func(*claimcache.Claim) bool { return true }))
	}
	claims, err := r.Live.ClaimsOf(ctx, consumer)
	if err != nil {
		return nil, err
	}
	return Usage(claims)
}
