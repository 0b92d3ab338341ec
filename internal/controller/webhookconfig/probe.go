package webhookconfig

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	probeName = "probe." + quotav1alpha1.GroupName
	// probeMark distinguishes the probe's denial from all others.
	probeMark = "bursar has been observed"
	// probeTimeout bounds the time until the API server observes a configuration.
	probeTimeout = 10 * time.Second
)

// probe returns a webhook for the probes of the given content only.
func (c *Controller) probe(hash string) admissionregistrationv1.ValidatingWebhook {
	return admissionregistrationv1.ValidatingWebhook{
		Name:         probeName,
		ClientConfig: c.Server.ClientConfig(ProbePath),
		Rules:        []admissionregistrationv1.RuleWithOperations{ruleFor(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, admissionregistrationv1.Create)},
		NamespaceSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"kubernetes.io/metadata.name": c.SystemNamespace},
		},
		ObjectSelector:          &metav1.LabelSelector{MatchLabels: map[string]string{quotav1alpha1.LabelProbe: hash}},
		FailurePolicy:           new(admissionregistrationv1.Fail),
		MatchPolicy:             new(admissionregistrationv1.Exact),
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          new(int32(timeoutSeconds)),
		AdmissionReviewVersions: []string{"v1"},
	}
}

// hashOf returns a hash of a configuration's content as a label value. It differs between the phases of admission.
func hashOf(phase string, webhooks any) string {
	content, err := json.Marshal([]any{phase, webhooks})
	if err != nil {
		panic(fmt.Sprintf("encode webhooks: %v", err)) // types of the API always encode
	}
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:16])
}

// waitObserved probes until the probe for this content answers.
func (c *Controller) waitObserved(ctx context.Context, hash string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, probeBackoff(), func(ctx context.Context) (observed bool, _ error) {
		observed, last = isObserved(ctx, c.Client, c.SystemNamespace, hash)
		return observed, nil
	})
	if err != nil && last != nil {
		return fmt.Errorf("%w (the last probe was answered with: %w)", err, last)
	}
	return err
}

// probeBackoff returns a short backoff, for an answer due any moment.
func probeBackoff() wait.Backoff {
	return wait.Backoff{Duration: 2 * time.Millisecond, Factor: 1.5, Cap: 100 * time.Millisecond, Steps: 1 << 20}
}

// isObserved reports whether the API server uses a content now. The error has any other answer.
func isObserved(ctx context.Context, client kubernetes.Interface, systemNamespace, hash string) (bool, error) {
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "probe-", Namespace: systemNamespace, Labels: map[string]string{quotav1alpha1.LabelProbe: hash},
	}}
	_, err := client.CoreV1().ConfigMaps(systemNamespace).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil && strings.Contains(err.Error(), probeMark) {
		return true, nil
	}
	return false, err
}

// Probe returns the handler of probes.
func Probe() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "not an AdmissionReview with a request", http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: probeMark,
		}}
		review.Request = nil
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&review) // a closed connection is no error here
	})
}
