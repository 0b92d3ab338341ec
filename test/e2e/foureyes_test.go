package e2e

import (
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/config"
)

// No role lets a user decide on a request of their own, or pass for somebody else.
func TestFourEyes(t *testing.T) {
	t.Parallel()
	const home = config.DefaultSystemNamespace
	for _, role := range []string{"bursar-platform-admin", "bursar-quota-manager", "bursar-quota-approver", "bursar-tenant-admin", "bursar-owning-service", "cluster-admin"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			w := newProtectedWorld(t, 1)
			name := w.name + "-user"
			w.bind(name, role, "")
			if role != "bursar-tenant-admin" {
				w.bind(name, "bursar-tenant-admin", home) // now they may ask
			}
			w.waitMay(name, authorizationv1.ResourceAttributes{Namespace: home, Verb: "create", Group: quotav1alpha1.GroupName, Version: "*", Resource: "quotarequests"})
			user := w.clientOf(name)

			request := w.newRequest("mine", 3)
			request.Spec.Requester = &quotav1alpha1.RequestUser{Username: "somebody-else"}
			must(t, user.Create(w.ctx, request))
			if request.Spec.Requester.Username != name {
				t.Errorf("the requester is %+v, want the authenticated user", request.Spec.Requester)
			}
			w.waitState(request, quotav1alpha1.ReasonPending)
			decision := w.newDecision(request, quotav1alpha1.DecisionApprove)
			decision.Spec.DecidedBy = &quotav1alpha1.RequestUser{Username: "somebody-else"}
			if err := user.Create(w.ctx, decision); !apierrors.IsForbidden(err) {
				t.Errorf("got %v for a decision on one's own request", err)
			}
			forged := request.DeepCopy()
			forged.Spec.Requester.Username = "somebody-else"
			if err := user.Update(w.ctx, forged); err == nil || !strings.Contains(err.Error(), "requester is immutable") {
				t.Errorf("got %v for another requester", err)
			}
			larger := request.DeepCopy()
			larger.Spec.Requests[0].Limit = new(int64(300))
			if err := user.Update(w.ctx, larger); err == nil || !strings.Contains(err.Error(), "a request is immutable") {
				t.Errorf("got %v for a larger request", err)
			}
			approved := request.DeepCopy()
			approved.Status.Approved = &quotav1alpha1.ApprovedQuota{Increases: []quotav1alpha1.ApprovedIncrease{{ResourceType: w.resourceType(), Increase: 2}}, Grant: "mine"}
			if err := user.Status().Update(w.ctx, approved); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
				t.Errorf("got %v for a status that approves", err)
			}
			marked := w.newGrant("request-"+string(request.UID), quotav1alpha1.Allowance{ResourceType: w.resourceType(), Buckets: []quotav1alpha1.Bucket{{Amount: 2}}})
			marked.Namespace, marked.Annotations = home, map[string]string{quotav1alpha1.AnnotationRequest: request.Name, quotav1alpha1.AnnotationRequestUID: string(request.UID)}
			err := user.Create(w.ctx, marked, client.DryRunAll)
			if role == "cluster-admin" {
				must(t, err) // an all-powerful user may also restore the grants of a backup
			} else if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
				t.Errorf("got %v for a grant that says it was made on the request", err)
			}
			must(t, w.decides("ann", w.newDecision(request, quotav1alpha1.DecisionApprove)))
			w.waitState(request, quotav1alpha1.ReasonApproved)
			var decisions quotav1alpha1.QuotaDecisionList
			must(t, admin.List(w.ctx, &decisions, client.InNamespace(home), client.MatchingFields{"spec.requestRef.name": request.Name}))
			if len(decisions.Items) != 1 || decisions.Items[0].Spec.DecidedBy.Username != "ann" {
				t.Errorf("got the decisions %+v, want that of ann", decisions.Items)
			}
		})
	}
}
