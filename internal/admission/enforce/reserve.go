package enforce

import (
	"context"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/explain"
	"github.com/bursar/bursar/internal/ledger"
)

// giveBackTimeout bounds giving back what was taken when a later consumer falls short. What
// is not given back in time expires.
const giveBackTimeout = 5 * time.Second

// reserve takes what every claim needs, in a fixed order, or nothing.
func (h *Handler) reserve(ctx context.Context, c *create) *admissionv1.AdmissionResponse {
	slices.SortFunc(c.claims, order)
	var taken []*plannedClaim
	for _, planned := range c.claims {
		decision, err := h.Store.Reserve(ctx, planned.consumer, ledger.Reservation{
			Key:        planned.key,
			ReservedAt: time.Now().Unix(),
			Charges:    planned.charges,
			Claim:      planned.outline.Encode(),
		})
		if err == nil && decision.Code == ledger.Admitted {
			taken = append(taken, planned)
			continue
		}
		h.giveBack(taken)
		if err != nil {
			return undecided(err)
		}
		return h.refusal(planned, decision)
	}
	h.admitted.add(c)
	return allowed()
}

// giveBack cancels reservations of an object that will not be created.
func (h *Handler) giveBack(taken []*plannedClaim) {
	// The caller may have no time left; what it took is given back all the same.
	ctx, cancel := context.WithTimeout(context.Background(), giveBackTimeout)
	defer cancel()
	for _, planned := range taken {
		// An error leaves the reservation to expire.
		_ = h.Store.Cancel(ctx, planned.consumer, planned.key, 0)
	}
}

// check answers a dry run: what reserve would answer, with nothing written.
func (h *Handler) check(ctx context.Context, c *create) *admissionv1.AdmissionResponse {
	slices.SortFunc(c.claims, order)
	for i, planned := range c.claims {
		if i > 0 && c.claims[i-1].consumer == planned.consumer {
			continue // counted together with the first claim of the consumer
		}
		decision, err := h.Store.Check(ctx, planned.consumer, together(c.claims, planned.consumer))
		if err != nil {
			return undecided(err)
		}
		if decision.Code != ledger.Admitted {
			return h.refusal(planned, decision)
		}
	}
	return allowed()
}

// together adds up what all claims of one consumer ask for. A sum that overflows stays at its
// maximum, which no limit allows.
func together(planned []*plannedClaim, consumer quotav1alpha1.ConsumerRef) []ledger.Charge {
	var sum []ledger.Charge
	for _, p := range planned {
		if p.consumer != consumer {
			continue
		}
		for _, charge := range p.charges {
			i := slices.IndexFunc(sum, func(s ledger.Charge) bool {
				return s.ResourceType == charge.ResourceType && s.Dimensions == charge.Dimensions
			})
			if i < 0 {
				sum = append(sum, charge)
				continue
			}
			total, ok := sum[i].Amount.Add(charge.Amount)
			if !ok {
				total = ledger.AmountMax
			}
			sum[i].Amount = total
		}
	}
	return sum
}

// refusal explains a decision that is not to admit.
func (h *Handler) refusal(planned *plannedClaim, decision ledger.Decision) *admissionv1.AdmissionResponse {
	if decision.Code == ledger.Exceeded {
		return exceeded(explain.Exceeded(h.Catalog, planned.consumer, decision.Shortages))
	}
	return undecidable(planned.policy, explain.Impossible(planned.consumer, decision.Code))
}
