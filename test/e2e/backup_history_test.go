package e2e

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/server"
)

// makeHistory makes claims and requests of all kinds: granted, beyond the limit and waiting, approved and denied.
func makeHistory(t *testing.T, s *server.Server) {
	t.Helper()
	direct := func(name string, amount int64) *quotav1alpha1.ResourceClaim {
		return &quotav1alpha1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: quotav1alpha1.ResourceClaimSpec{
			ConsumerRef: platform.Consumer("acme"), ResourceRef: quotav1alpha1.UnversionedObjectReference{Kind: "ConfigMap", Name: name, Namespace: "default"},
			Requests: []quotav1alpha1.ResourceRequest{{ResourceType: platform.MapsType, Amount: amount}},
		}}
	}
	must(t, s.Admin.Create(t.Context(), direct("service", 3)))
	must(t, s.Admin.Create(t.Context(), direct("waits", 5000)))
	for name, decision := range map[string]quotav1alpha1.Decision{"more": quotav1alpha1.DecisionApprove, "most": quotav1alpha1.DecisionDeny, "open": ""} {
		if request := askFor(t, s, name, "tom", 900); decision != "" {
			decide(t, s, request, decision)
		}
	}
}

// namedAdminOf returns the client of an administrator of a server with a name.
func namedAdminOf(t *testing.T, s *server.Server, name string) client.Client {
	t.Helper()
	api, err := s.As(rest.ImpersonationConfig{UserName: name, Groups: []string{"system:masters"}})
	must(t, err)
	return api
}

// askFor creates a request of a user for more maps for acme.
func askFor(t *testing.T, s *server.Server, name, user string, increase int64) *quotav1alpha1.QuotaRequest {
	t.Helper()
	request := &quotav1alpha1.QuotaRequest{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: config.DefaultSystemNamespace}, Spec: quotav1alpha1.QuotaRequestSpec{
		ConsumerRef: platform.Consumer("acme"), Reason: "a release", Requests: []quotav1alpha1.RequestedQuota{{ResourceType: platform.MapsType, Increase: &increase}},
	}}
	must(t, namedAdminOf(t, s, user).Create(t.Context(), request))
	return request
}

// decide decides on a request as ann, and waits until the decision counts.
func decide(t *testing.T, s *server.Server, request *quotav1alpha1.QuotaRequest, decision quotav1alpha1.Decision) {
	t.Helper()
	decided := &quotav1alpha1.QuotaDecision{ObjectMeta: metav1.ObjectMeta{Name: request.Name, Namespace: request.Namespace}, Spec: quotav1alpha1.QuotaDecisionSpec{
		RequestRef: quotav1alpha1.DecidedRequestRef{Name: request.Name, UID: string(request.UID)}, Decision: decision, Reason: "it is so",
	}}
	eventually(t, func() error { return namedAdminOf(t, s, "ann").Create(t.Context(), decided) })
	eventually(t, func() error {
		must(t, s.Admin.Get(t.Context(), client.ObjectKeyFromObject(request), request))
		if c := apimeta.FindStatusCondition(request.Status.Conditions, quotav1alpha1.ConditionApproved); c == nil || c.Status == metav1.ConditionUnknown {
			return fmt.Errorf("request %s is not decided: %+v", request.Name, c)
		}
		return nil
	})
}

// requestsOf returns the requesters, requests, deciders and outcomes, without UIDs.
func requestsOf(w *world, s *server.Server) []string {
	w.Helper()
	var asked quotav1alpha1.QuotaRequestList
	var decided quotav1alpha1.QuotaDecisionList
	must(w, errors.Join(s.Admin.List(w.ctx, &asked), s.Admin.List(w.ctx, &decided)))
	var lines []string
	uids := map[string]string{}
	for i := range asked.Items {
		r := &asked.Items[i]
		uids[string(r.UID)] = r.Name
		reason := "new"
		if c := apimeta.FindStatusCondition(r.Status.Conditions, quotav1alpha1.ConditionApproved); c != nil {
			reason = c.Reason
		}
		lines = append(lines, fmt.Sprintf("%s asked by %s: %s, %d decisions", r.Name, r.Spec.Requester.Username, reason, len(r.Status.Decisions)))
	}
	for i := range decided.Items {
		d := &decided.Items[i]
		lines = append(lines, fmt.Sprintf("%s on %s by %s", d.Spec.Decision, uids[d.Spec.RequestRef.UID], d.Spec.DecidedBy.Username))
	}
	slices.Sort(lines)
	return lines
}
