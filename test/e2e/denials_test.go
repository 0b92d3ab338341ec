package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/await"
)

// clientGo is the admin's client of client-go.
func clientGo(t *testing.T) kubernetes.Interface {
	t.Helper()
	config := rest.CopyConfig(started.Config)
	config.QPS = -1
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// Programs learn the cause of a denial with client-go, without reading the message for people.
func TestDenialsAreForProgramsToo(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	maps := clientGo(t).CoreV1().ConfigMaps(w.name)
	deniedFor := func(reason metav1.CauseType) quotav1alpha1.Denial {
		t.Helper()
		var denials []quotav1alpha1.Denial
		eventually(w, func() error {
			_, err := maps.Create(w.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "b"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if denials = quotav1alpha1.DenialsOf(err); !apierrors.IsForbidden(err) || len(denials) != 1 || denials[0].Reason != reason {
				return fmt.Errorf("got %v with causes %+v, want %s", err, denials, reason)
			}
			return nil
		})
		return denials[0]
	}
	w.mustCreate(w.configMap("a"))
	got := deniedFor(quotav1alpha1.CauseQuotaExceeded)
	if want := (quotav1alpha1.DenialFigures{Requested: 1, Used: 1, Limited: 1}); got.Figures == nil || *got.Figures != want || got.ResourceType != w.resourceType() || *got.Consumer != w.consumer() {
		t.Errorf("got %+v with figures %+v, want %+v", got, got.Figures, want)
	}
	grant := &quotav1alpha1.ResourceGrant{}
	if err := admin.DeleteAllOf(w.ctx, grant, client.InNamespace(w.name)); err != nil {
		t.Fatal(err)
	}
	deniedFor(quotav1alpha1.CauseNothingGranted)
	policy := &quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
	w.update(policy, func() {
		policy.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef.Name = "{{.trigger.data.payer}}"
	})
	deniedFor(quotav1alpha1.CausePolicyNotApplicable)
	if got := quotav1alpha1.DenialsOf(errors.New("another")); got != nil {
		t.Errorf("got %v of an error that is none of Bursar's", got)
	}
}

// A storm of denials leaves one event, in the namespace of the consumer's quota and with the present figures. A tenant
// without the right to read the quota gets no figures.
func TestDenialsLeaveOneEvent(t *testing.T) {
	t.Parallel()
	const storm = 40
	w := newProtectedWorld(t, 1)
	w.mustCreate(w.configMap("a"))
	tenant := w.newAccount("stranger")
	w.bind(tenant.user, "edit", w.name)
	w.waitMay(tenant.user, attributesOf("configmaps", "create", w.name))
	api := w.as(tenant, rest.ImpersonationConfig{})
	for n := range storm {
		err := api.Create(w.ctx, w.configMap(fmt.Sprint("b", n)))
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota") {
			t.Fatalf("got %v", err)
		}
		if denials := quotav1alpha1.DenialsOf(err); strings.Contains(err.Error(), "limited") || len(denials) != 1 || denials[0].Figures != nil {
			t.Fatalf("whoever may not read the quota is told %v, and %+v", err, denials)
		}
	}
	await.NoError(w, soon+15*time.Second, func() error {
		var list corev1.EventList
		if err := admin.List(w.ctx, &list, client.MatchingFields{"reason": "QuotaDenied"}); err != nil {
			return err
		}
		var found []corev1.Event
		for _, event := range list.Items {
			if event.Reason == "QuotaDenied" && strings.Contains(event.Message, "Organization "+w.name+",") {
				found = append(found, event)
			}
		}
		if len(found) != 1 || found[0].Count != storm || !strings.Contains(found[0].Message, "used: 1, limited: 1") || found[0].Namespace == metav1.NamespaceDefault {
			return fmt.Errorf("got %d events: %+v, want one that occurred %d times", len(found), found, storm)
		}
		effective, err := w.effective()
		if err != nil {
			return err
		}
		if got := found[0].InvolvedObject; got.UID != effective.UID || got.Name != effective.Name {
			return fmt.Errorf("the event is on %+v, want effective grant %s with UID %s, as kubectl describe needs", got, effective.Name, effective.UID)
		}
		return nil
	})
}

// Somebody else refuses a create after Bursar admitted it. The next create of the same name still gets its quota.
func TestRefusedCreatesOfOneNameHoldQuotaOnce(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	nowhere, none := "https://127.0.0.1:1/", admissionregistrationv1.SideEffectClassNone
	refuser := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: w.name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "refuser.example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &nowhere},
			SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": w.name}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}
	w.mustCreate(refuser)
	isRefused := func(object *corev1.ConfigMap, options ...client.CreateOption) error {
		if err := admin.Create(w.ctx, object, options...); err == nil || !strings.Contains(err.Error(), "refuser.example.com") {
			return fmt.Errorf("got %v, want somebody else to refuse", err)
		}
		return nil
	}
	eventually(w, func() error { return isRefused(w.configMap("probe"), client.DryRunAll) })
	for range 5 {
		must(t, isRefused(w.configMap("a")))
	}
	w.mustDelete(refuser)
	eventually(w, func() error { return admin.Create(w.ctx, w.configMap("a")) })
	w.wantBucket(1, 1, 0, 1)
	w.wantExceeded(w.configMap("b"))
}

// An event on a waiting claim informs its owner.
func TestWaitingClaimHasAnEvent(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	w.mustCreate(w.claim("waits", 2))
	w.wantEventOn("ResourceClaim", "waits", quotav1alpha1.ReasonQuotaExceeded, "exceeded quota: ", "requested: 2 maps, used: 0, limited: 1", "once the limit is high enough")
}
