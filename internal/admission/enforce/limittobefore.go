package enforce

import (
	"context"
	"fmt"
	"maps"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/policy"
)

// limitToBefore decides an update of an object if a policy is applicable neither before nor after the update. It
// returns nil if the update may pass: only metadata changes, or the object needs no more than before. Without this rule
// nothing would limit an object while its policy fails.
func limitToBefore(ctx context.Context, c *change, p *catalog.Policy, before, after policy.Input, err error) *admissionv1.AdmissionResponse {
	if c.isOfMetadata() {
		return nil
	}
	demand, demandErr := demandOf(ctx, p, after)
	earlier, earlierErr := demandOf(ctx, p, before)
	if demandErr == nil && earlierErr == nil && earlier.Covers(demand) {
		return nil
	}
	return denyNotApplicable(p.Name, fmt.Errorf("%w; until it can be, the object must not need more than before, and this change may exceed that", err))
}

// demandOf returns a policy's demand for an object, in charges. It evaluates neither conditions nor consumer.
func demandOf(ctx context.Context, p *catalog.Policy, in policy.Input) (*evaluator.Claim, error) {
	requests, err := p.Requests(ctx, in)
	if err != nil {
		return nil, err
	}
	charges, err := claims.Charges(requests)
	if err != nil {
		return nil, err
	}
	return &evaluator.Claim{Charges: charges}, nil
}

// isOfMetadata reports whether the change affects only the metadata and status of the object.
func (c *change) isOfMetadata() bool {
	return equality.Semantic.DeepEqual(withoutMetadata(c.old), withoutMetadata(c.new))
}

func withoutMetadata(object map[string]any) map[string]any {
	object = maps.Clone(object)
	delete(object, "metadata")
	delete(object, "status")
	return object
}
