package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/config"
)

// namedAdmin returns the client of an administrator with a name.
func namedAdmin(t testing.TB, name string, groups ...string) client.WithWatch {
	t.Helper()
	impersonating := rest.CopyConfig(started.Config)
	impersonating.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: append(groups, "system:masters")}
	api, err := client.NewWithWatch(impersonating, client.Options{Scheme: admin.Scheme()})
	must(t, err)
	return api
}

// newRequest is a request for a limit, in the namespace of the consumer.
func (w *world) newRequest(name string, limit int64) *quotav1alpha1.QuotaRequest {
	request := &quotav1alpha1.QuotaRequest{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-" + name, Namespace: config.DefaultSystemNamespace}}
	request.Spec = quotav1alpha1.QuotaRequestSpec{
		ConsumerRef: w.consumer(), Reason: "a release", Requests: []quotav1alpha1.RequestedQuota{{ResourceType: w.resourceType(), Limit: &limit}},
	}
	return request
}

func (w *world) newDecision(request *quotav1alpha1.QuotaRequest, decision quotav1alpha1.Decision) *quotav1alpha1.QuotaDecision {
	d := &quotav1alpha1.QuotaDecision{ObjectMeta: metav1.ObjectMeta{GenerateName: request.Name + "-", Namespace: request.Namespace}}
	d.Spec = quotav1alpha1.QuotaDecisionSpec{RequestRef: quotav1alpha1.DecidedRequestRef{Name: request.Name, UID: string(request.UID)}, Decision: decision}
	return d
}

// waitState waits until the condition Approved of a request has a reason.
func (w *world) waitState(request *quotav1alpha1.QuotaRequest, reason string) {
	w.Helper()
	eventually(w, func() error {
		if err := admin.Get(w.ctx, client.ObjectKeyFromObject(request), request); err != nil {
			return err
		}
		if c := apimeta.FindStatusCondition(request.Status.Conditions, quotav1alpha1.ConditionApproved); c == nil || c.Reason != reason {
			return fmt.Errorf("the request is %+v, want %s", c, reason)
		}
		return nil
	})
}

// A tenant asks for more quota, and somebody else approves it.
func TestQuotaRequest(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	request := w.newRequest("more", 3)
	request.Spec.Requester = &quotav1alpha1.RequestUser{Username: "somebody-else"}
	must(t, namedAdmin(t, "tom").Create(w.ctx, request))
	w.waitState(request, quotav1alpha1.ReasonPending)
	if by := request.Spec.Requester; by == nil || by.Username != "tom" {
		t.Fatalf("the requester is %+v, want the authenticated user", by)
	}
	if err := namedAdmin(t, "tom").Create(w.ctx, w.newDecision(request, quotav1alpha1.DecisionApprove)); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "of their own") {
		t.Fatalf("got %v for the approval of one's own request", err)
	}
	decision := w.newDecision(request, quotav1alpha1.DecisionApprove)
	decision.Spec.DecidedBy = &quotav1alpha1.RequestUser{Username: "somebody-else"}
	must(t, namedAdmin(t, "ann").Create(w.ctx, decision))
	if by := decision.Spec.DecidedBy; by == nil || by.Username != "ann" {
		t.Errorf("the decision is by %+v, want the authenticated user", by)
	}
	w.waitState(request, quotav1alpha1.ReasonApproved)
	for _, name := range []string{"a", "b", "c"} {
		w.mustCreate(w.configMap(name))
	}
	w.wantExceeded(w.configMap("d"))
	if err := namedAdmin(t, "bob").Create(w.ctx, w.newDecision(request, quotav1alpha1.DecisionApprove)); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "is decided") {
		t.Errorf("got %v for another approval", err)
	}
	grant := &quotav1alpha1.ResourceGrant{}
	must(t, admin.Get(w.ctx, client.ObjectKey{Namespace: request.Namespace, Name: "request-" + string(request.UID)}, grant))
	if grant.Spec.Allowances[0].Buckets[0].Amount != 2 || grant.Annotations[quotav1alpha1.AnnotationRequest] != request.Name {
		t.Errorf("got the grant %+v, want two more, on the request", grant)
	}
}

func TestQuotaRequestEnds(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	denied := w.newRequest("denied", 3)
	must(t, namedAdmin(t, "tom").Create(w.ctx, denied))
	w.waitState(denied, quotav1alpha1.ReasonPending)
	decision := w.newDecision(denied, quotav1alpha1.DecisionDeny)
	if err := namedAdmin(t, "ann").Create(w.ctx, decision); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "give a reason") {
		t.Errorf("got %v for a denial without a reason", err)
	}
	decision.Spec.Reason = "not this year"
	must(t, namedAdmin(t, "ann").Create(w.ctx, decision))
	w.waitState(denied, quotav1alpha1.ReasonDenied)

	withdrawn := w.newRequest("withdrawn", 3)
	must(t, namedAdmin(t, "tom").Create(w.ctx, withdrawn))
	change(t, withdrawn, func(r *quotav1alpha1.QuotaRequest) { r.Spec.Withdrawn = true })
	w.waitState(withdrawn, quotav1alpha1.ReasonWithdrawn)

	tom, late := namedAdmin(t, "tom"), w.newRequest("late", 3)
	late.Spec.Until = in(10 * time.Second) // a busy server takes its time for the create
	must(t, tom.Create(w.ctx, late))
	w.waitState(late, quotav1alpha1.ReasonExpired)

	less := w.newRequest("less", 9)
	must(t, namedAdmin(t, "tom").Create(w.ctx, less))
	w.waitState(less, quotav1alpha1.ReasonPending)
	part := w.newDecision(less, quotav1alpha1.DecisionApprove)
	part.Spec.Amounts = []quotav1alpha1.DecidedQuota{{ResourceType: w.resourceType(), Amount: 10}}
	if err := namedAdmin(t, "ann").Create(w.ctx, part); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "more than requested") {
		t.Errorf("got %v for more than requested", err)
	}
	part.Spec.Amounts[0].Amount = 4
	must(t, namedAdmin(t, "ann").Create(w.ctx, part))
	w.waitState(less, quotav1alpha1.ReasonPartiallyApproved)
	w.wantBucket(4, 0, 4, 0)
}

// The webhook rejects requests for impossible amounts, and for others.
func TestQuotaRequestIsValid(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	for name, tt := range map[string]struct {
		change func(*quotav1alpha1.QuotaRequest)
		want   string
	}{
		"unknown type":       {func(r *quotav1alpha1.QuotaRequest) { r.Spec.Requests[0].ResourceType = "castles" }, "has no active ResourceRegistration"},
		"another namespace":  {func(r *quotav1alpha1.QuotaRequest) { r.Namespace = "default" }, "belongs in namespace"},
		"limit and increase": {func(r *quotav1alpha1.QuotaRequest) { r.Spec.Requests[0].Increase = new(int64(1)) }, "give limit, or increase"},
		"twice":              {func(r *quotav1alpha1.QuotaRequest) { r.Spec.Requests = append(r.Spec.Requests, r.Spec.Requests[0]) }, "Duplicate value"},
		"over":               {func(r *quotav1alpha1.QuotaRequest) { r.Spec.Until = in(-time.Hour) }, "is over"},
		"withdrawn":          {func(r *quotav1alpha1.QuotaRequest) { r.Spec.Withdrawn = true }, "cannot be withdrawn"},
		"no reason":          {func(r *quotav1alpha1.QuotaRequest) { r.Spec.Reason = "" }, "spec.reason"},
	} {
		request := w.newRequest("r", 3)
		tt.change(request)
		if err := admin.Create(w.ctx, request); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
	request := w.newRequest("r", 3)
	must(t, admin.Create(w.ctx, request))
	err := w.tryUpdate(request, func() { request.Spec.Requests[0].Limit = new(int64(30)) }) // Bursar writes its status
	if err == nil || !strings.Contains(err.Error(), "immutable") {
		t.Errorf("got %v for a change of a request", err)
	}
}
