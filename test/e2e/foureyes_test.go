package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
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

// A ServiceAccount and whoever may act for it are one pair of eyes: as the requester, and among several approvers.
func TestFourEyesOfServiceAccounts(t *testing.T) {
	t.Parallel()
	const home = config.DefaultSystemNamespace
	w := newProtectedWorld(t, 1)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-app", Namespace: w.name}}
	w.mustCreate(account)
	app, token, impersonates, other := "system:serviceaccount:"+w.name+":"+account.Name, w.name+"-token", w.name+"-impersonates", w.name+"-other"
	pods, secrets, team, asker := w.name+"-pods", w.name+"-secrets", w.name+"-team", w.name+"-asker"
	for name, rule := range map[string]rbacv1.PolicyRule{
		token:        {Verbs: []string{"create"}, Resources: []string{"serviceaccounts/token"}},
		impersonates: {Verbs: []string{"impersonate"}, Resources: []string{"serviceaccounts"}},
		pods:         {Verbs: []string{"create"}, Resources: []string{"pods"}},
		secrets:      {Verbs: []string{"list"}, Resources: []string{"secrets"}},
	} {
		rule.APIGroups = []string{""}
		w.mustCreate(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule}})
		w.bind(name, name, w.name)
	}
	w.mustCreate(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: team, Namespace: w.name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: token},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: team}},
	})
	for _, user := range []string{app, token, impersonates, pods, secrets, other, asker} {
		w.bind(user, "bursar-tenant-admin", home)
		w.bind(user, "bursar-quota-approver", home)
		w.waitMay(user, authorizationv1.ResourceAttributes{Namespace: home, Verb: "create", Group: quotav1alpha1.GroupName, Version: "*", Resource: "quotarequests"})
		w.waitMay(user, authorizationv1.ResourceAttributes{Namespace: home, Verb: "create", Group: quotav1alpha1.GroupName, Version: "*", Resource: "quotadecisions"})
	}
	ofApp := authorizationv1.ResourceAttributes{Namespace: w.name, Version: "v1", Resource: "serviceaccounts", Name: account.Name}
	ofApp.Verb = "impersonate"
	w.waitMay(impersonates, ofApp)
	ofApp.Verb, ofApp.Subresource = "create", "token"
	w.waitMay(token, ofApp)
	w.waitMay(pods, authorizationv1.ResourceAttributes{Namespace: w.name, Verb: "create", Version: "v1", Resource: "pods"})
	w.waitMay(secrets, authorizationv1.ResourceAttributes{Namespace: w.name, Verb: "list", Version: "v1", Resource: "secrets"})
	approve := func(user string, request *quotav1alpha1.QuotaRequest) error {
		return w.clientOf(user).Create(w.ctx, w.newDecision(request, quotav1alpha1.DecisionApprove))
	}
	wantForbidden := func(reason, part string, err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: got %v, want it forbidden: %s", reason, err, part)
		}
	}

	asked := w.newRequest("by-an-account", 3)
	must(t, w.clientOf(app).Create(w.ctx, asked))
	w.waitState(asked, quotav1alpha1.ReasonPending)
	wantForbidden("who may get the account's token", "you may act for "+app, approve(token, asked))
	wantForbidden("who may impersonate the account", "you may act for "+app, approve(impersonates, asked))
	wantForbidden("who may run a Pod as the account", "you may act for "+app, approve(pods, asked))
	wantForbidden("who may read the account's tokens", "you may act for "+app, approve(secrets, asked))
	must(t, approve(other, asked))
	w.waitState(asked, quotav1alpha1.ReasonApproved)

	member, err := started.As(rest.ImpersonationConfig{UserName: other, Groups: []string{team, "system:authenticated"}})
	must(t, err)
	byGroup := w.newRequest("by-a-member", 6)
	must(t, member.Create(w.ctx, byGroup))
	w.waitState(byGroup, quotav1alpha1.ReasonPending)
	wantForbidden("the account of a group of the requester", other+" may act for you", approve(app, byGroup))

	mine := w.newRequest("by-a-person", 4)
	must(t, w.clientOf(token).Create(w.ctx, mine))
	w.waitState(mine, quotav1alpha1.ReasonPending)
	wantForbidden("the account of the requester", token+" may act for you", approve(app, mine))
	denial := w.newDecision(mine, quotav1alpha1.DecisionDeny)
	denial.Spec.Reason = "a denial gives nothing away"
	must(t, w.clientOf(app).Create(w.ctx, denial))
	w.waitState(mine, quotav1alpha1.ReasonDenied)

	w.mustPolicy("two", func(p *quotav1alpha1.QuotaRequestPolicySpec) {
		p.Rules = []quotav1alpha1.QuotaRequestRule{{Name: "two", Action: quotav1alpha1.ActionAsk, Approvals: 2}}
	})
	twice := w.newRequest("twice", 5)
	must(t, w.clientOf(asker).Create(w.ctx, twice))
	w.wantMessage(twice, "waits for 2 approvals")
	must(t, approve(app, twice))
	w.wantMessage(twice, "1 given")
	wantForbidden("the second approval by the same person", "has already approved it, and you may act for", approve(token, twice))
	must(t, approve(other, twice))
	w.waitState(twice, quotav1alpha1.ReasonApproved)

	for n := range 5 {
		raced := w.newRequest(fmt.Sprint("raced-", n), int64(6+n))
		must(t, w.clientOf(asker).Create(w.ctx, raced))
		w.wantMessage(raced, "waits for 2 approvals")
		var approvals sync.WaitGroup
		for _, user := range []string{app, token} {
			approvals.Go(func() {
				if err := approve(user, raced); err != nil && !apierrors.IsForbidden(err) {
					t.Errorf("an approval at the same moment: %v", err)
				}
			})
		}
		approvals.Wait()
		w.wantMessage(raced, "1 given")
		must(t, approve(other, raced))
		w.waitState(raced, quotav1alpha1.ReasonApproved)
	}
}
