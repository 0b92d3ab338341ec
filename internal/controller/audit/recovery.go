package audit

import (
	"context"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/tally"
	"github.com/bursar/bursar/internal/ledger"
)

// Recovery computes the usage of consumers without a ledger.
type Recovery struct {
	Claims *claimcache.Cache
	Live   Live
}

// lostSequences is more than the number of a lost ledger's reservations after those of all claims.
const lostSequences = 1 << 20

// Usage computes the usage of a consumer without a ledger from its granted claims. withdrawn are the sequences after
// those of the claims: the lost ledger may have given them to reservations with claims yet to come.
//
// A grant or a release writes the ledger. So neither happens between the read of the claims and the creation of the
// ledger. If another replica has created the ledger in between, the store reads that one instead.
//
// Before the claim cache is in sync, the API server lists the claims of the consumer. It has no index for them: it
// compares the selected fields of all claims in its watch cache (a millisecond for 1,000 claims), and answers with a
// retry while it loads this cache. Later the claim cache answers: all ledgers may disappear at once, and a list of many
// thousand claims of one consumer takes longer than a decision may. The cache may lag behind claims granted just before
// the loss of a ledger; the audit charges those.
func (r Recovery) Usage(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (used []ledger.Usage, withdrawn ledger.SequenceRange, err error) {
	var claims []*claimcache.Claim
	if r.Claims.HasSynced() {
		claims = r.Claims.ForConsumer(consumer, func(*claimcache.Claim) bool { return true })
	} else if claims, err = r.Live.ClaimsOf(ctx, consumer); err != nil {
		return nil, withdrawn, err
	}
	for _, claim := range claims {
		withdrawn.First = max(withdrawn.First, claim.Sequence+1)
		withdrawn.Last = withdrawn.First + lostSequences
	}
	used, err = tally.Usage(claims, nil)
	return used, withdrawn, err
}
