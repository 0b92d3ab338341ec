package review

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
)

const smallReview = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"a"}}`

// TestLargeReviewsTakeTurns sends more large reviews at once than there is memory for. Each gets an answer in time,
// and none of them holds up a small review.
func TestLargeReviewsTakeTurns(t *testing.T) {
	all := largeBodies
	defer func() { largeBodies = all }()
	largeBodies = semaphore.NewWeighted(64 * 64 << 10)

	synctest.Test(t, func(t *testing.T) {
		var answers sync.WaitGroup
		for range 64 {
			answers.Go(func() {
				if code := serve(t, pausedAt(64<<10, 96<<10), 96<<10, time.Second); code != http.StatusOK {
					t.Errorf("a large review got status %d", code)
				}
			})
		}
		synctest.Wait()
		time.Sleep(200 * time.Millisecond) // all large reviews that have memory are at work, and the others wait for it

		begun := time.Now()
		for range 100 {
			if code := serve(t, strings.NewReader(smallReview), int64(len(smallReview)), 0); code != http.StatusOK {
				t.Errorf("a small review got status %d", code)
			}
		}
		if waited := time.Since(begun); waited > 0 { // of the time in the bubble, which passes only while all wait
			t.Errorf("small reviews waited %s for large ones", waited)
		}
		answers.Wait()
	})
}

// TestAnnouncedBodies reads bodies with any announcement.
func TestAnnouncedBodies(t *testing.T) {
	for name, tt := range map[string]struct {
		reason string
		size   int
		length int64
		want   int
	}{
		"small":       {"it ends as announced", 1000, 1000, http.StatusOK},
		"at bound":    {"the largest small body", smallMax, smallMax, http.StatusOK},
		"large":       {"it ends as announced", smallMax + 1, smallMax + 1, http.StatusOK},
		"unknown":     {"a body in chunks", 1000, -1, http.StatusOK},
		"tiny":        {"it ends before a large body gets memory", 100, -1, http.StatusOK},
		"too large":   {"it says so", bytesMax + 1, bytesMax + 1, http.StatusRequestEntityTooLarge},
		"much larger": {"it does not say so", bytesMax + 1000, -1, http.StatusRequestEntityTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			if got := serve(t, padded(tt.size), tt.length, 0); got != tt.want {
				t.Errorf("%s: got status %d, want %d", tt.reason, got, tt.want)
			}
			if !smallBodies.TryAcquire(smallBodiesMax) || !largeBodies.TryAcquire(largeBodiesMax) {
				t.Fatal("the review holds memory after its answer")
			}
			smallBodies.Release(smallBodiesMax)
			largeBodies.Release(largeBodiesMax)
		})
	}
}

// serve returns the status of the answer to a review that takes some time.
func serve(t *testing.T, body io.Reader, length int64, takes time.Duration) int {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/?timeout=6s", body)
	r.ContentLength = length
	w := httptest.NewRecorder()
	Serve(w, r, func(*admissionv1.AdmissionRequest, []byte) *admissionv1.AdmissionResponse {
		time.Sleep(takes)
		return Allowed()
	})
	return w.Code
}

// padded returns a review of a size, or a small one.
func padded(size int) io.Reader {
	return io.MultiReader(strings.NewReader(smallReview), bytes.NewReader(bytes.Repeat([]byte(" "), max(0, size-len(smallReview)))))
}

// pausedAt returns a review of a size that pauses for a moment in its middle, as all do that arrive at once.
func pausedAt(at, size int) io.Reader {
	return io.MultiReader(padded(at), pause{}, bytes.NewReader(bytes.Repeat([]byte(" "), size-at)))
}

type pause struct{}

func (pause) Read([]byte) (int, error) {
	time.Sleep(100 * time.Millisecond)
	return 0, io.EOF
}
