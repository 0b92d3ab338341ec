package e2e

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// askAt creates a request for more at a location, or for any location, of the user tom.
func (w *world) askAt(name, at string, increase int64) *quotav1alpha1.QuotaRequest {
	w.Helper()
	request := w.newRequest(name, 0)
	asked := &request.Spec.Requests[0]
	asked.Limit, asked.Increase = nil, &increase
	if at != "" {
		asked.Dimensions = map[string]string{location: at}
	}
	must(w, namedAdmin(w, "tom").Create(w.ctx, request))
	return request
}

// Much quota at cheap locations approves none at a dear one, by whatever way it is asked for.
func TestQuotaRequestByDimensions(t *testing.T) {
	t.Parallel()
	w := newLocatedWorld(t)
	w.give("cheap", w.located(40, "DFW", "LHR"))
	w.mustPolicy("half", func(p *quotav1alpha1.QuotaRequestPolicySpec) {
		p.Rules = []quotav1alpha1.QuotaRequestRule{{Name: "half", Condition: "asks.all(a, a.increase * 2 <= a.limit)", Action: quotav1alpha1.ActionApprove}}
		p.Ceilings = []quotav1alpha1.QuotaRequestCeiling{{ResourceType: w.resourceType(), Dimensions: map[string]string{location: "DLS"}, Limit: 8}}
	})

	w.wantMessage(w.askAt("dear", "DLS", 2), "waits for a decision")
	w.wantMessage(w.askAt("any", "", 2), "waits for a decision")
	beyond := w.askAt("beyond", "DLS", 9)
	w.waitState(beyond, quotav1alpha1.ReasonDenied)
	w.wantMessage(beyond, "(location=DLS) is 0 maps, and requests may raise it to 8 maps at most: ask for 8 maps more at most")
	w.waitState(w.askAt("cheap", "LHR", 2), quotav1alpha1.ReasonApproved)
}

// A consumer and a user may have so many open requests, and a withdrawal makes room for another.
func TestOpenQuotaRequestsAreBounded(t *testing.T) {
	t.Parallel()
	const most = 20
	w := newProtectedWorld(t, 1)
	tom := namedAdmin(t, w.name+"-tom")
	for i := range most {
		must(t, tom.Create(w.ctx, w.newRequest(fmt.Sprintf("open-%d", i), 3)))
	}
	eventually(t, func() error { // the webhook counts in a cache
		err := tom.Create(w.ctx, w.newRequest("too-many", 3), client.DryRunAll)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "has 20 open QuotaRequests, and 20 are allowed: wait for decisions, or withdraw some") {
			return fmt.Errorf("got %v for the 21st request", err)
		}
		return nil
	})
	open := &quotav1alpha1.QuotaRequest{}
	must(t, admin.Get(w.ctx, client.ObjectKeyFromObject(w.newRequest("open-0", 3)), open))
	change(t, open, func(r *quotav1alpha1.QuotaRequest) { r.Spec.Withdrawn = true })
	w.waitState(open, quotav1alpha1.ReasonWithdrawn)
	eventually(t, func() error { return tom.Create(w.ctx, w.newRequest("again", 3)) })
}

// A QuotaReview answers for amounts: what fits, what does not, and what the user may not know.
func TestQuotaReviewOfAmounts(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 2) // its registration lists the kinds that may claim
	ask := func(as client.Client, amounts ...int64) *quotav1alpha1.QuotaReviewStatus {
		t.Helper()
		review := &quotav1alpha1.QuotaReview{ObjectMeta: metav1.ObjectMeta{GenerateName: "r-", Namespace: w.name}}
		for _, amount := range amounts {
			review.Spec.Requests = append(review.Spec.Requests, quotav1alpha1.ReviewedRequest{
				ConsumerRef: w.consumer(), ResourceRequest: quotav1alpha1.ResourceRequest{ResourceType: w.resourceType(), Amount: amount},
			})
		}
		must(t, as.Create(w.ctx, review, client.DryRunAll))
		return review.Status
	}
	eventually(t, func() error {
		status := ask(admin, 2, 1, 0)
		for i, want := range []quotav1alpha1.ReviewResult{quotav1alpha1.ReviewResultFits, quotav1alpha1.ReviewResultDoesNotFit, quotav1alpha1.ReviewResultFits} {
			if got := status.Requests[i]; got.Result != want {
				return fmt.Errorf("amount %d: got %s %q, want %s", i, got.Result, got.Message, want)
			}
		}
		if got := status.Requests[1].Message; !strings.Contains(got, "requested: 1 map, used: 2, limited: 2") {
			return fmt.Errorf("the denial is %q", got)
		}
		return nil
	})

	stranger := w.name + "-stranger"
	w.bind(stranger, "bursar-tenant-viewer", w.name) // may ask here, and see quota nowhere else
	eventually(t, func() error {
		review := &quotav1alpha1.QuotaReview{ObjectMeta: metav1.ObjectMeta{GenerateName: "r-", Namespace: w.name}}
		review.Spec.Requests = []quotav1alpha1.ReviewedRequest{{
			ConsumerRef: w.consumer(), ResourceRequest: quotav1alpha1.ResourceRequest{ResourceType: w.resourceType(), Amount: 9},
		}}
		if err := w.clientOf(stranger).Create(w.ctx, review, client.DryRunAll); err != nil {
			return err
		}
		if got := review.Status.Requests[0]; got.Result != quotav1alpha1.ReviewResultUnknown || len(review.Status.Quotas) > 0 {
			return fmt.Errorf("a stranger got %+v and %+v", got, review.Status.Quotas)
		}
		return nil
	})
}
