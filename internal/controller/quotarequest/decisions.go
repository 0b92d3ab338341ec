package quotarequest

import (
	"context"
	"fmt"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/quotarequest"
	"github.com/bursar/bursar/internal/quotarequest/foureyes"
)

// decisions returns the decisions that count on a request. If a rule asks several people, those who count as one person
// have one approval, the earlier one; same is then the end of a sentence about the others. The webhook refuses such an
// approval, unless both were made at the same moment.
func (r *Reconciler) decisions(
	ctx context.Context, request *quotav1alpha1.QuotaRequest, rule quotarequest.Rule,
) (counting []quotav1alpha1.QuotaDecision, same string, err error) {
	all, err := decisionsOn(ctx, r.Live, request)
	if err != nil {
		return nil, "", err
	}
	all = quotarequest.Counting(request, all)
	if rule.Approvals < 2 {
		return all, "", nil
	}

	for i := range all {
		acting, err := r.actingAmong(ctx, counting, &all[i])
		if err != nil {
			return nil, "", err
		}
		if acting != (foureyes.Acting{}) {
			same += fmt.Sprintf("; the approval by %s does not count, because %s may act for %s", all[i].Spec.DecidedBy.Username, acting.Actor, acting.For)
			continue
		}
		counting = append(counting, all[i])
	}
	return counting, same, nil
}

// actingAmong returns which of an approver and the earlier approvers acts for the other, if they count as one person.
func (r *Reconciler) actingAmong(ctx context.Context, earlier []quotav1alpha1.QuotaDecision, d *quotav1alpha1.QuotaDecision) (foureyes.Acting, error) {
	if d.Spec.Decision != quotav1alpha1.DecisionApprove {
		return foureyes.Acting{}, nil
	}
	for i := range earlier {
		if earlier[i].Spec.Decision != quotav1alpha1.DecisionApprove {
			continue
		}
		acting, err := foureyes.Find(ctx, r.Permissions, foureyes.KnownAs(d.Spec.DecidedBy), foureyes.KnownAs(earlier[i].Spec.DecidedBy))
		if acting != (foureyes.Acting{}) || err != nil {
			return acting, err
		}
	}
	return foureyes.Acting{}, nil
}
