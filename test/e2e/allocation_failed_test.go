package e2e

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/await"
)

// TestAdmittedAndFailed has somebody else refuse changes after Bursar admitted them. Bursar gives back the reservation
// once the request can no longer succeed, after 90 s at the latest.
func TestAdmittedAndFailed(t *testing.T) {
	w := newTeam(t, "web", "shop")
	w.allocation("", "count/secrets=10")
	w.mustGive("web", "default", "count/secrets=0")
	quota := w.newQuota("web", "default")
	eventually(w, func() error { // with the status written, only the test changes it; another change would undo the raise
		err := admin.Get(t.Context(), client.ObjectKeyFromObject(quota), quota)
		if err == nil && len(quota.Status.Used) == 0 {
			err = fmt.Errorf("nothing is counted yet: %+v", quota.Status)
		}
		return err
	})
	lift := w.refuseChanges("web")
	err := w.give("web", "default", "count/secrets=10")
	if !apierrors.IsForbidden(err) {
		t.Fatalf("got %v, want it to be refused by the other webhook", err)
	}
	began := time.Now()
	lift()
	w.wantRefused(w.give("shop", "default", "count/secrets=5"), w.name)
	const bound = 90 * time.Second
	await.NoError(t, bound, func() error { return w.give("shop", "default", "count/secrets=10") })
	t.Logf("given back after %s", time.Since(began))
}

// refuseChanges has a webhook refuse all changes of the project's ResourceQuotas until the caller calls lift. It
// refuses raises only after Bursar admitted them.
func (w *team) refuseChanges(project string) (lift func()) {
	w.Helper()
	webhook := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		var quota corev1.ResourceQuota
		err := json.Unmarshal(review.Request.Object.Raw, &quota)
		if amount := quota.Spec.Hard[secrets]; err == nil && !amount.IsZero() {
			err = w.waitPending(r) // the API server calls both webhooks at once, and this one answers later
		}
		if err != nil {
			http.Error(rw, err.Error(), http.StatusInternalServerError)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "not today"}}
		review.Request = nil
		_ = json.NewEncoder(rw).Encode(&review)
	}))
	w.Cleanup(webhook.Close)
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: w.name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "refuses.example.com",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL:      &webhook.URL,
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: webhook.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"resourcequotas"}},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": w.in(project)}},
			FailurePolicy:     new(admissionregistrationv1.Fail), SideEffects: new(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
	must(w, admin.Create(w.Context(), configuration))
	eventually(w, func() error {
		if err := w.give(project, "default", "count/secrets=0"); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the other webhook is not asked yet: %v", err)
		}
		return nil
	})
	return func() {
		must(w, admin.Delete(w.Context(), configuration))
	}
}

// waitPending waits until a change is pending in the team's allocation.
func (w *team) waitPending(r *http.Request) error {
	return wait.PollUntilContextCancel(r.Context(), 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		allocation := &quotav1alpha1.ResourceQuotaAllocation{}
		if err := admin.Get(ctx, client.ObjectKey{Name: w.name}, allocation); err != nil {
			return false, err
		}
		ledger := &quotav1alpha1.AllocationLedger{}
		if err := admin.Get(ctx, client.ObjectKey{Name: string(allocation.UID)}, ledger); err != nil {
			return false, err
		}
		return len(ledger.Spec.Pending) > 0, nil
	})
}
