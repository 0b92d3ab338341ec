package review

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
)

const (
	// turnTime is how long a review waits for its turn.
	turnTime = 2 * time.Second
	// turnTimeMax bounds a turn with its wait. The API server waits much longer: a late answer is still an answer.
	turnTimeMax = 4500 * time.Millisecond
)

// InTurn returns a handler for slow reviews, such as questions. turns bounds the answers in progress, because creates
// must not wait for them. A review waits for its turn before the handler reads it, so waiting reviews take no memory
// from the other webhooks. After two seconds the answer is status 503; what names the questions in it. The context of
// answer ends long before the API server's timeout.
func InTurn(turns *semaphore.Weighted, what string, answer func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), min(Timeout(r), turnTimeMax))
		defer cancel()
		waiting, stop := context.WithTimeout(ctx, turnTime)
		defer stop()
		if err := turns.Acquire(waiting, 1); err != nil {
			http.Error(w, "too many "+what+" are in progress: try again", http.StatusServiceUnavailable)
			return
		}
		defer turns.Release(1)
		Serve(w, r, func(request *admissionv1.AdmissionRequest, _ []byte) *admissionv1.AdmissionResponse {
			return answer(ctx, request)
		})
	})
}
