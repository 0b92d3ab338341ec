package fleet

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func newCopy(t *testing.T, used time.Time) *Copy {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	return &Copy{ctx: ctx, end: end, used: used, quota: newQuotaStore(), failures: map[string]error{}}
}

// Beyond the bound, the copy that was idle longest ends.
func TestCopiesAreBounded(t *testing.T) {
	now := time.Now()
	copies := &Copies{open: map[*Copy]struct{}{}}
	oldest := newCopy(t, now.Add(-time.Hour))
	copies.open[oldest] = struct{}{}
	for len(copies.open) < copiesMax {
		copies.open[newCopy(t, now)] = struct{}{}
	}
	copies.makeRoom()
	if len(copies.open) != copiesMax-1 || oldest.ctx.Err() == nil {
		t.Errorf("%d copies are open, and the oldest one has ended: %t", len(copies.open), oldest.ctx.Err() != nil)
	}
	for each := range copies.open {
		if each.ctx.Err() != nil {
			t.Error("a copy that was used lately has ended")
		}
	}
}

// An error about rights ends a copy; others are shown until a request succeeds.
func TestFailures(t *testing.T) {
	resource := schema.GroupResource{Resource: "effectiveresourcegrants"}
	for name, tt := range map[string]struct {
		reason string
		err    error
		ends   bool
	}{
		"away":         {"the API server comes back", errors.New("connection refused"), false},
		"busy":         {"the API server asks to wait", apierrors.NewTooManyRequestsError("busy"), false},
		"forbidden":    {"the person lost the right", apierrors.NewForbidden(resource, "", nil), true},
		"unauthorized": {"the token has expired", apierrors.NewUnauthorized("expired"), true},
	} {
		c := newCopy(t, time.Now())
		if err := c.noted("quota", tt.err); !errors.Is(err, tt.err) || !errors.Is(c.Failure(), tt.err) {
			t.Errorf("%s: got %v, and the failure is %v", name, err, c.Failure())
		}
		if ended := c.ctx.Err() != nil; ended != tt.ends {
			t.Errorf("%s: %s, and the copy has ended: %t", name, tt.reason, ended)
		}
		if c.Wait(t.Context(), time.Millisecond) {
			t.Errorf("%s: nothing was read", name)
		}
		if err := c.noted("requests", nil); err != nil || c.Failure() == nil {
			t.Errorf("%s: what else was read hides the failure", name)
		}
		if err := c.noted("quota", nil); err != nil || c.Failure() != nil {
			t.Errorf("%s: the failure stays: %v", name, c.Failure())
		}
	}
}
