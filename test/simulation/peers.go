package simulation

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/controller/webhookconfig"
)

const (
	// forwardedHeader marks a forwarded review, as package routing does, and decisionTime is the time that package
	// routing keeps back.
	forwardedHeader = "Bursar-Forwarded"
	decisionTime    = 1200 * time.Millisecond
)

// Forward implements [enforce.Replicas].
func (r *replica) Forward(ctx context.Context, consumer quotav1alpha1.ConsumerRef, path string, review []byte) ([]byte, bool) {
	if r.IsPreferred(consumer) {
		return nil, false
	}
	timeout := 400 * time.Millisecond
	if deadline, ok := ctx.Deadline(); ok {
		timeout = time.Until(deadline) - decisionTime
	}
	asking, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	other := r.hosts[r.thinks.Load()]
	if timeout <= 0 || r.gate.Wait(asking) != nil || other.gate.Wait(asking) != nil {
		return nil, false
	}
	return other.call(asking, path, review, true)
}

// ForwardToAny implements [enforce.Replicas]. Every replica knows the one policy, so none needs another for that.
func (r *replica) ForwardToAny(context.Context, string, []byte) ([]byte, bool) { return nil, false }

// call sends a review to a path of the replica of a host.
func (h *host) call(ctx context.Context, path string, review []byte, isForwarded bool) ([]byte, bool) {
	r := h.current.Load()
	if !pause(ctx, h.oneWay()) || r == nil || r.working.Err() != nil || !r.isReady.Load() || h.gate.Wait(ctx) != nil {
		return nil, false
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.working, cancel)()
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, path+"?timeout="+webhookTimeout.String(), bytes.NewReader(review))
	request.SetPathValue("version", strings.TrimPrefix(path, webhookconfig.EnforcePath+"/"))
	if deadline, ok := ctx.Deadline(); ok && isForwarded {
		request.Header.Set(forwardedHeader, "true")
		request.URL.RawQuery = "timeout=" + time.Until(deadline).String()
	}
	recorder := httptest.NewRecorder()
	r.handler.ServeHTTP(recorder, request)
	if r.working.Err() != nil || recorder.Code != http.StatusOK || h.gate.Wait(ctx) != nil || !pause(ctx, h.oneWay()) || h.isAnswerLost() {
		return nil, false
	}
	return recorder.Body.Bytes(), true
}

// oneWay returns how long a message takes.
func (w *World) oneWay() time.Duration {
	if w.calm() {
		return w.upTo(time.Millisecond)
	}
	return w.upTo(w.shape.latency)
}

func (w *World) isAnswerLost() bool {
	return !w.calm() && w.shape.faults > 0 && w.roll(2*w.shape.faults) == 0
}
