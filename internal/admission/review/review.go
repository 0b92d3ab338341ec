// Package review decodes AdmissionReviews and encodes the answers. All webhooks import it. It limits the memory of
// open reviews.
package review

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

const (
	// bytesMax bounds a review. The API server reads 3 MiB of an object and stores half of that. A review may escape
	// each character by six, and a change has an object before and one after.
	bytesMax = 6*(3<<20) + 6<<20
	// smallBodiesMax and largeBodiesMax bound the bytes of the bodies of all open reviews, together 128 MiB. Bodies up
	// to smallMax are small.
	smallBodiesMax, largeBodiesMax = 32 << 20, 96 << 20
	smallMax                       = 32 << 10
	// beginBytes have to arrive before a large body gets memory.
	beginBytes = 512
	// answerTime shortens the API server's timeout, so a late decision still reaches the user as a sentence and not as a
	// failed call. A failed call shows the secret path of the webhook to the user.
	answerTime = 500 * time.Millisecond
	// timeoutDefault applies if the request has no timeout.
	timeoutDefault = 5 * time.Second
	// retryAfterSeconds is the wait for clients after an undecided answer.
	retryAfterSeconds = 1
)

// Serve decodes a review, calls answer with its request and its body, and writes the response. It answers with status
// 400 if the body is not an AdmissionReview of admission.k8s.io/v1 with a request, and with 413 if it is too large.
// If the open reviews take up all the permitted memory, Serve waits for almost as long as the API server does, and then
// answers with 503. It does so at once if answer returns nil, because this process cannot decide.
func Serve(w http.ResponseWriter, r *http.Request, answer func(request *admissionv1.AdmissionRequest, body []byte) *admissionv1.AdmissionResponse) {
	waiting, cancel := context.WithTimeout(r.Context(), Timeout(r))
	defer cancel()
	var held memory
	defer held.release()
	review, body, err := read(waiting, w, r, &held)
	if err != nil {
		http.Error(w, err.Error(), codeOf(err))
		return
	}
	response := answer(review.Request, body)
	if response == nil {
		http.Error(w, "this replica cannot decide the review", http.StatusServiceUnavailable)
		return
	}
	response.UID = review.Request.UID
	w.Header().Set("Content-Type", "application/json")
	content, err := json.Marshal(&admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: response})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(content) // a disconnected client is not an error of the webhook
}

// codeOf returns the HTTP status for an error of read.
func codeOf(err error) int {
	tooLarge := (*http.MaxBytesError)(nil)
	switch {
	case errors.Is(err, errMemory):
		return http.StatusServiceUnavailable
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout
	default:
		return http.StatusBadRequest
	}
}

func read(ctx context.Context, w http.ResponseWriter, r *http.Request, held *memory) (*admissionv1.AdmissionReview, []byte, error) {
	body, err := held.readAll(ctx, http.MaxBytesReader(w, r.Body, bytesMax), r.ContentLength)
	if errors.Is(err, errMemory) {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the AdmissionReview: %w", err)
	}
	review := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(body, review); err != nil {
		return nil, nil, fmt.Errorf("decode the AdmissionReview: %w", err)
	}
	if kind := review.GroupVersionKind(); kind != admissionv1.SchemeGroupVersion.WithKind("AdmissionReview") {
		return nil, nil, fmt.Errorf("the body is a %s, not an AdmissionReview of admission.k8s.io/v1", kind)
	}
	if review.Request == nil {
		return nil, nil, errors.New("the AdmissionReview has no request")
	}
	return review, body, nil
}

// Timeout returns how long a handler may take for its answer. Some time is left for the way back.
func Timeout(r *http.Request) time.Duration {
	timeout := patience(r)
	return timeout - min(answerTime, timeout/2)
}

// patience returns how long the caller waits at least. An API server rounds the rest of its timeout up to whole
// seconds, so it may wait up to a second less than it says. Other replicas say it exactly.
func patience(r *http.Request) time.Duration {
	timeout, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	switch {
	case err != nil || timeout <= 0:
		return timeoutDefault
	case timeout%time.Second == 0:
		return max(timeout-time.Second, timeout/2)
	default:
		return timeout
	}
}

// Within returns a handler that answers with status 503 if the next handler has not answered shortly before the caller
// gives up. The caller of a handler without an answer would show the path of the webhook to its user.
func Within(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		timeout := patience(r)
		http.TimeoutHandler(next, timeout-min(answerTime/2, timeout/4), "Bursar could not answer in time: try again").ServeHTTP(w, r)
	})
}

// IsDryRun reports whether a request changes nothing.
func IsDryRun(request *admissionv1.AdmissionRequest) bool {
	return request.DryRun != nil && *request.DryRun
}

// Allowed admits a request.
func Allowed() *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Allowed: true}
}

// PatchOperation is one operation of a JSON patch (RFC 6902).
type PatchOperation struct {
	Operation string `json:"op"`
	Path      string `json:"path"`
	Value     any    `json:"value"`
}

// Patched admits a request, with a patch of its object.
func Patched(operations ...PatchOperation) *admissionv1.AdmissionResponse {
	response := Allowed()
	if len(operations) == 0 {
		return response
	}
	patch, err := json.Marshal(operations)
	if err != nil {
		return Denied(http.StatusInternalServerError, metav1.StatusReasonInternalError, "encode a patch: %v", err)
	}
	response.Patch, response.PatchType = patch, new(admissionv1.PatchTypeJSONPatch)
	return response
}

// Denied denies a request with a message for the user.
func Denied(code int32, reason metav1.StatusReason, format string, args ...any) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    code,
		Reason:  reason,
		Message: fmt.Sprintf(format, args...),
	}}
}

// Invalid denies a request that makes no sense, with a message for the user.
func Invalid(format string, args ...any) *admissionv1.AdmissionResponse {
	return Denied(http.StatusBadRequest, metav1.StatusReasonBadRequest, format, args...)
}

// Unavailable rejects a question without an answer right now, and asks the client to try again.
func Unavailable(format string, args ...any) *admissionv1.AdmissionResponse {
	response := Denied(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, format+"; try again", args...)
	response.Result.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfterSeconds}
	return response
}

// Undecided rejects a request because no decision is possible right now, and asks the client to try again. The
// message never blames a lack of quota, because nobody knows of one. isBusy means too many requests in flight.
func Undecided(err error, isBusy bool) *admissionv1.AdmissionResponse {
	code, reason := int32(http.StatusServiceUnavailable), metav1.StatusReasonServiceUnavailable
	if isBusy {
		code, reason = http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests
	}
	response := Denied(code, reason, "quota could not be decided: %v; nothing was changed, try again", err)
	response.Result.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfterSeconds}
	return response
}
