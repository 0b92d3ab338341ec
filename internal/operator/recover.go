package operator

import (
	"context"
	"fmt"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claimcache"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/ledger"
)

// recover computes the usage of a consumer from its granted claims, for when it has no ledger.
func (p *parts) recover(ctx context.Context, consumer quotav1alpha1.ConsumerRef) ([]ledger.Usage, error) {
	if err := p.claims.WaitForSync(ctx); err != nil {
		return nil, err
	}
	books := ledger.New()
	granted := p.claims.ForConsumer(consumer, func(claim *claimcache.Claim) bool { return claim.State == claimcache.Granted })
	for _, claim := range granted {
		charges, err := claims.Charges(claim.Requests())
		if err != nil {
			return nil, fmt.Errorf("claim %s: %w", claim.NamespacedName, err)
		}
		decision := books.Adopt(ledger.Reservation{Key: string(claim.UID), Charges: charges})
		if decision.Code != ledger.Admitted || !books.Settle(string(claim.UID), decision.Sequence) {
			return nil, fmt.Errorf("claim %s cannot be counted: %s", claim.NamespacedName, decision.Code)
		}
	}
	return books.Books().Used, nil
}
