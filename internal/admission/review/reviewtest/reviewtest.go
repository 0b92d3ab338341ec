// Package reviewtest sends reviews to webhooks, for tests.
package reviewtest

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// AskFor sends the create of an object that asks a question, and returns the response of the webhook with the status
// that it adds to the object. A denial comes without a status. The question is from a user named somebody, in the
// namespace team-1. path has the timeout of the request, as the API server gives it.
func AskFor[Status any](ctx context.Context, t testing.TB, webhook http.Handler, path string, question any, isDryRun bool) (*admissionv1.AdmissionResponse, *Status) {
	t.Helper()
	object, err := json.Marshal(question)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "1", Namespace: "team-1", Operation: admissionv1.Create, DryRun: &isDryRun, Object: runtime.RawExtension{Raw: object},
			UserInfo: authenticationv1.UserInfo{Username: "somebody"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}

	recorder := httptest.NewRecorder()
	webhook.ServeHTTP(recorder, httptest.NewRequestWithContext(ctx, http.MethodPost, path, bytes.NewReader(body)))
	if recorder.Code != http.StatusOK {
		t.Fatalf("the webhook answers with status %d: %s", recorder.Code, recorder.Body)
	}
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	if !answer.Response.Allowed {
		return answer.Response, nil
	}

	var patch []struct {
		Path  string `json:"path"`
		Value Status `json:"value"`
	}
	if err := json.Unmarshal(answer.Response.Patch, &patch); err != nil || len(patch) != 1 || patch[0].Path != "/status" {
		t.Fatalf("the patch is %s (%v), want one of the status", answer.Response.Patch, err)
	}
	return answer.Response, &patch[0].Value
}
