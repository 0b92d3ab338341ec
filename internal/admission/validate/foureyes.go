package validate

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/quotarequest/foureyes"
)

// samePersonReason returns why an approval by a user adds no other person to a request, or "". Whoever may act for a
// ServiceAccount counts as the same person, in both directions: as its requester or earlier approver, or through it.
//
// The earlier approvals are those on the API server, because the status of the request follows them later. Two reviews
// at the same moment may still miss each other's decision, so the controller looks again.
func (w *Webhooks) samePersonReason(ctx context.Context, request *quotav1alpha1.QuotaRequest, decider authenticationv1.UserInfo) (string, error) {
	if requester := request.Spec.Requester; requester != nil {
		acting, err := w.actingWith(ctx, decider, requester)
		if err != nil {
			return "", err
		}
		if acting != "" {
			return "nobody approves a request of their own, and " + acting + ": another person must decide", nil
		}
	}

	decisions, err := w.Requests.Decisions(ctx, request)
	if err != nil {
		return "", err
	}
	for i := range decisions {
		spec := &decisions[i].Spec
		isApproval := spec.Decision == quotav1alpha1.DecisionApprove && types.UID(spec.RequestRef.UID) == request.UID
		if !isApproval || spec.DecidedBy == nil {
			continue
		}

		acting, err := w.actingWith(ctx, decider, spec.DecidedBy)
		if err != nil {
			return "", err
		}
		if acting != "" {
			return fmt.Sprintf("%s has already approved it, and %s: another person must approve it, too", spec.DecidedBy.Username, acting), nil
		}
	}
	return "", nil
}

// actingWith returns a sentence if a decider may act for an earlier user or the other way round, and "" if not.
func (w *Webhooks) actingWith(ctx context.Context, decider authenticationv1.UserInfo, earlier *quotav1alpha1.RequestUser) (string, error) {
	acting, err := foureyes.Find(ctx, w.Permissions, decider, foureyes.KnownAs(earlier))
	switch {
	case err != nil || acting == foureyes.Acting{}:
		return "", err
	case acting.Actor == decider.Username:
		return "you may act for " + acting.For, nil
	default:
		return fmt.Sprintf("%s may act for you, %s", acting.Actor, decider.Username), nil
	}
}
