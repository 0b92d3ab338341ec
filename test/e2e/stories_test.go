package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/config"
)

// clientOf returns the client of a user with only the rights of their roles.
func (w *world) clientOf(user string) client.Client {
	w.Helper()
	impersonating := rest.CopyConfig(started.Config)
	impersonating.Impersonate = rest.ImpersonationConfig{UserName: user}
	api, err := client.New(impersonating, client.Options{Scheme: admin.Scheme()})
	must(w, err)
	return api
}

// limitSeenBy waits until a user sees a limit of the consumer.
func (w *world) limitSeenBy(user client.Client, limit int64) {
	w.Helper()
	eventually(w, func() error {
		var grants quotav1alpha1.EffectiveResourceGrantList
		if err := user.List(w.ctx, &grants, client.InNamespace(config.DefaultSystemNamespace)); err != nil {
			return err
		}
		for i := range grants.Items {
			if g := &grants.Items[i]; g.Spec.ConsumerRef == w.consumer() && g.Status.TotalLimit == limit {
				return nil
			}
		}
		return fmt.Errorf("no limit of %d is seen", limit)
	})
}

// These are the stories of the users of quota: a tenant with the rights of bursar-tenant-admin, an approver with those
// of bursar-quota-approver, and a reading auditor. None of them is an administrator.
func TestStoriesOfQuota(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 2)
	const home = config.DefaultSystemNamespace
	tenantName, approverName, auditorName := w.name+"-tenant", w.name+"-approver", w.name+"-auditor"
	w.bind(tenantName, "bursar-tenant-admin", home)
	w.bind(tenantName, "edit", w.name)
	w.bind(approverName, "bursar-quota-approver", "")
	w.bind(auditorName, "bursar-tenant-viewer", "")
	tenant, approver, auditor := w.clientOf(tenantName), w.clientOf(approverName), w.clientOf(auditorName)
	for user, resource := range map[string]string{tenantName: "quotarequests", approverName: "quotadecisions"} {
		w.waitMay(user, authorizationv1.ResourceAttributes{Namespace: home, Verb: "create", Group: quotav1alpha1.GroupName, Version: "*", Resource: resource})
	}
	w.waitMay(tenantName, authorizationv1.ResourceAttributes{Namespace: w.name, Verb: "create", Version: "*", Resource: "configmaps"})
	w.waitMay(auditorName, authorizationv1.ResourceAttributes{Verb: "list", Group: quotav1alpha1.GroupName, Version: "*", Resource: "quotadecisions"})

	// A tenant sees their limit.
	w.limitSeenBy(tenant, 2)
	// Within the limit they create objects freely, at once.
	must(t, tenant.Create(w.ctx, w.configMap("a")))
	must(t, tenant.Create(w.ctx, w.configMap("b")))
	// They learn before an order whether it fits.
	third := w.configMap("c")
	third.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(third)
	must(t, err)
	answer := w.review(tenant, false, applied(&unstructured.Unstructured{Object: content}))
	if answer.Result != doesNotFit {
		t.Errorf("the review says %s of the third of two", answer.Result)
	}
	// Beyond the limit they learn the reason, and the next step.
	err = tenant.Create(w.ctx, w.configMap("c"))
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "limited: 2") || !strings.Contains(err.Error(), "to ask for more: bursar request "+w.resourceType()+"=+1") {
		t.Fatalf("got %v for the third of two", err)
	}
	// They give themselves nothing.
	grant := w.newGrant("mine", quotav1alpha1.Allowance{ResourceType: w.resourceType(), Buckets: []quotav1alpha1.Bucket{{Amount: 5}}})
	grant.Namespace = home
	if err := tenant.Create(w.ctx, grant); !apierrors.IsForbidden(err) {
		t.Errorf("got %v for a tenant's own grant", err)
	}
	// They ask for more, and follow the request.
	asked := w.newRequest("story", 5)
	must(t, tenant.Create(w.ctx, asked))
	w.waitState(asked, quotav1alpha1.ReasonPending)
	if err := tenant.Create(w.ctx, w.newDecision(asked, quotav1alpha1.DecisionApprove)); !apierrors.IsForbidden(err) {
		t.Errorf("got %v for a tenant's own decision", err)
	}
	// An approver sees the requests, and approves less, for a month.
	var waiting quotav1alpha1.QuotaRequestList
	must(t, approver.List(w.ctx, &waiting, client.InNamespace(home)))
	decision := w.newDecision(asked, quotav1alpha1.DecisionApprove)
	decision.Spec.Amounts = []quotav1alpha1.DecidedQuota{{ResourceType: w.resourceType(), Amount: 3}}
	decision.Spec.Until = in(30 * 24 * time.Hour)
	must(t, approver.Create(w.ctx, decision))
	w.waitState(asked, quotav1alpha1.ReasonPartiallyApproved)
	must(t, tenant.Create(w.ctx, w.configMap("c")))
	// The approver denies another one with a reason, and the tenant reads it.
	hopeless := w.newRequest("hopeless", 500)
	must(t, tenant.Create(w.ctx, hopeless))
	w.waitState(hopeless, quotav1alpha1.ReasonPending)
	denial := w.newDecision(hopeless, quotav1alpha1.DecisionDeny)
	denial.Spec.Reason = "not this year"
	must(t, approver.Create(w.ctx, denial))
	w.waitState(hopeless, quotav1alpha1.ReasonDenied)
	must(t, tenant.Get(w.ctx, client.ObjectKeyFromObject(hopeless), hopeless))
	w.wantMessage(hopeless, approverName+" denied it: not this year")
	// An approver decides, and writes no grant.
	if err := approver.Create(w.ctx, grant); !apierrors.IsForbidden(err) {
		t.Errorf("got %v for the grant of somebody who may only decide", err)
	}
	// An auditor reads the requester, the request and its reason, the decider, and the grant, and changes nothing.
	must(t, auditor.Get(w.ctx, client.ObjectKeyFromObject(asked), asked))
	decided := asked.Status.Decisions
	if asked.Spec.Requester.Username != tenantName || len(decided) != 1 || decided[0].DecidedBy.Username != approverName || decided[0].DecidedAt.IsZero() {
		t.Errorf("an auditor reads %+v of %+v", decided, asked.Spec)
	}
	granted := &quotav1alpha1.ResourceGrant{}
	must(t, auditor.Get(w.ctx, client.ObjectKey{Namespace: home, Name: asked.Status.Approved.Grant}, granted))
	if granted.Spec.NotAfter == nil || granted.Annotations[quotav1alpha1.AnnotationRequest] != asked.Name {
		t.Errorf("an auditor reads the grant %+v", granted)
	}
	if err := auditor.Create(w.ctx, w.newDecision(hopeless, quotav1alpha1.DecisionApprove)); !apierrors.IsForbidden(err) {
		t.Errorf("got %v for the decision of an auditor", err)
	}
	// Deletion frees quota for new objects.
	must(t, tenant.Delete(w.ctx, w.configMap("a")))
	eventually(t, func() error { return tenant.Create(w.ctx, w.configMap("d")) })
	w.limitSeenBy(tenant, 3)
	w.journalStories(tenantName, approverName)
}
