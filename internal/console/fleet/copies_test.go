package fleet

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/usage"
)

// newCopy returns a copy with a number of rows.
func newCopy(t *testing.T, used time.Time, rows int) *Copy {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	c := &Copy{ctx: ctx, end: end, used: used, quota: newQuotaStore(), failures: map[string]error{}}
	for i := range rows {
		row := &Row{Usage: usage.Usage{Consumer: quotav1alpha1.ConsumerRef{Name: fmt.Sprint(i)}, ResourceType: "machines", Limit: 1}}
		c.quota.put(c.quota.rows, row)
	}
	return c
}

// Beyond a bound, the copy with the longest idle time ends.
func TestCopiesAreBounded(t *testing.T) {
	now := time.Now()
	for name, tt := range map[string]struct {
		reason              string
		copiesMax, allowed  int
		wantOpen, wantEnded []string
	}{
		"Room":   {"all fit", 3, 9, []string{"newest", "middle", "oldest"}, nil},
		"Copies": {"two are permitted", 2, 9, []string{"newest", "middle"}, []string{"oldest"}},
		"Rows":   {"two copies have seven rows, and three have nine", 3, 8, []string{"newest", "middle"}, []string{"oldest"}},
		"One":    {"one copy stays, however large it is", 3, 1, []string{"newest"}, []string{"middle", "oldest"}},
	} {
		t.Run(name, func(t *testing.T) {
			named := map[string]*Copy{
				"newest": newCopy(t, now, 4), "middle": newCopy(t, now.Add(-time.Minute), 3), "oldest": newCopy(t, now.Add(-time.Hour), 2),
			}
			copies := &Copies{open: map[*Copy]struct{}{}}
			for _, each := range named {
				copies.open[each] = struct{}{}
			}
			copies.makeRoom(tt.copiesMax, tt.allowed)
			for _, each := range tt.wantOpen {
				if _, isOpen := copies.open[named[each]]; !isOpen || named[each].ctx.Err() != nil {
					t.Errorf("%s: the %s copy has ended", tt.reason, each)
				}
			}
			for _, each := range tt.wantEnded {
				if _, isOpen := copies.open[named[each]]; isOpen || named[each].ctx.Err() == nil {
					t.Errorf("%s: the %s copy goes on", tt.reason, each)
				}
			}
		})
	}
}

// The sum of all limits of a resource type gives the room under a cap.
func TestGranted(t *testing.T) {
	c := newCopy(t, time.Now(), 3)
	for _, limit := range []int64{5, 7} {
		c.quota.rows[key{resourceType: fmt.Sprint(limit)}] = &Row{Usage: usage.Usage{ResourceType: "seats", Limit: limit}}
	}
	if granted, isWhole := c.Granted("seats"); granted != 12 || !isWhole {
		t.Errorf("got %d, whole: %t; want 12 of the two consumers with seats", granted, isWhole)
	}
	c.quota.isCut = true
	if _, isWhole := c.Granted("seats"); isWhole {
		t.Error("rows are left out, and the sum counts as whole")
	}
}

// An error about rights ends a copy; pages show other errors until a request succeeds.
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
		c := newCopy(t, time.Now(), 0)
		if err := c.noted("quota", tt.err); !errors.Is(err, tt.err) || !errors.Is(c.Failure(), tt.err) {
			t.Errorf("%s: got %v, and the failure is %v", name, err, c.Failure())
		}
		if ended := c.ctx.Err() != nil; ended != tt.ends {
			t.Errorf("%s: %s, and the copy has ended: %t", name, tt.reason, ended)
		}
		if c.wait(t.Context(), time.Millisecond) {
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
