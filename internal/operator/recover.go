package operator

import (
	"context"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claimcache"
	"github.com/bursar/bursar/internal/controller/audit"
	"github.com/bursar/bursar/internal/ledger"
)

// recover computes the usage of a consumer from its granted claims, for when it has no ledger.
func (p *parts) recover(ctx context.Context, consumer quotav1alpha1.ConsumerRef) ([]ledger.Usage, error) {
	if err := p.claims.WaitForSync(ctx); err != nil {
		return nil, err
	}
	return audit.Usage(p.claims.ForConsumer(consumer, func(*claimcache.Claim) bool { return true }))
}
