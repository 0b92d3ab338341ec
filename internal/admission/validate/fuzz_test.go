package validate_test

import (
	"encoding/json"
	"net/http"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
)

// FuzzBody sends any body to both webhooks. None may panic. A webhook either rejects a body as a whole, or answers
// with a review: an admission or a reason.
func FuzzBody(f *testing.F) {
	for _, body := range [][]byte{
		nil,
		[]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}`),
		review(f, admissionv1.Create, "ResourceRegistration", "resourceregistrations", "alice", nil, sampleRegistration()),
		review(f, admissionv1.Update, "ResourceGrant", "resourcegrants", "alice", sampleGrant(), sampleGrant()),
		review(f, admissionv1.Create, "ResourceClaim", "resourceclaims", "alice", nil, policyClaim()),
		review(f, admissionv1.Delete, "ResourceClaim", "resourceclaims", "alice", policyClaim(), nil),
		review(f, admissionv1.Update, "AllowanceBucket", "allowancebuckets", bursar, sampleBucket(), sampleBucket()),
		review(f, admissionv1.Create, "EffectiveResourceGrant", "effectiveresourcegrants", "alice", nil, sampleEffectiveGrant()),
		review(f, admissionv1.Create, "ClaimCreationPolicy", "claimcreationpolicies", "alice", nil, sampleClaimPolicy()),
		review(f, admissionv1.Create, "GrantCreationPolicy", "grantcreationpolicies", "alice", nil, sampleGrantPolicy()),
		review(f, admissionv1.Delete, "ConsumerLedger", "consumerledgers", "alice", map[string]any{}, nil),
		statusReview(f, admissionv1.Update, "ResourceClaim", "resourceclaims", "alice", policyClaim()),
		review(f, admissionv1.Delete, "ResourceRegistration", "resourceregistrations", "alice", activeRegistration(), nil),
		namespaceReview(f, admissionv1.Delete, "alice", map[string]any{}, nil),
	} {
		f.Add(body)
	}
	handlers := []http.Handler{quiet().Validation(), quiet().Mutation()}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, handler := range handlers {
			recorder := post(handler, body)
			if recorder.Code == http.StatusBadRequest || recorder.Code == http.StatusRequestEntityTooLarge {
				continue
			}
			answer := &admissionv1.AdmissionReview{}
			if err := json.Unmarshal(recorder.Body.Bytes(), answer); err != nil || recorder.Code != http.StatusOK || answer.Response == nil {
				t.Fatalf("status %d, body %q: %v", recorder.Code, recorder.Body, err)
			}
			if r := answer.Response; !r.Allowed && (r.Result == nil || r.Result.Message == "" || r.Result.Code < 400) {
				t.Fatalf("refused without saying why: %+v", r.Result)
			}
		}
	})
}
