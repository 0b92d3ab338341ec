package allocation

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	caps "github.com/bursar/bursar/internal/allocation"
)

// canceling records the cancelled quota changes. Those in fails return an error.
type canceling struct {
	Ledgers
	ids   []string
	fails string
}

func (c *canceling) Cancel(_ context.Context, name, id string) error {
	if id == c.fails {
		return errors.New("the ledger did not answer")
	}
	c.ids = append(c.ids, name+"/"+id)
	return nil
}

// quotaAt is the ResourceQuota web/default.
func quotaAt(uid types.UID, version string) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "default", UID: uid, ResourceVersion: version}}
}

// changeOf returns a quota change admitted by a replica with a clock an hour behind.
func changeOf(uid types.UID, replaces string) caps.QuotaChange {
	return caps.QuotaChange{ID: "raise", Namespace: "web", Name: "default", UID: uid, ResourceVersion: replaces, AdmittedAt: metav1.NewTime(time.Now().Add(-time.Hour))}
}

// hear makes the controller see quota changes, and lets time pass.
func hear(t *testing.T, c *Controller, pending []caps.QuotaChange, ago time.Duration) {
	t.Helper()
	c.states = map[string]*allocationState{}
	if err := c.expire(t.Context(), "acme", pending); err != nil {
		t.Fatal(err)
	}
	time.Sleep(ago) // by the clock of the test's bubble
}

// pendingTime is how long a quota change may be pending.
const pendingTime = 75 * time.Second

// A stored change, or another one in its place, is about to arrive by watch; until then it counts.
func TestExpire(t *testing.T) {
	for name, tt := range map[string]struct {
		reason   string
		there    *corev1.ResourceQuota
		uid      types.UID
		replaces string
		ago      time.Duration
		want     bool
	}{
		"not created":            {"the request came to nothing", nil, "u", "", pendingTime, true},
		"not created yet":        {"the request may still be on its way", nil, "u", "", pendingTime - 1, false},
		"created":                {"it was made meanwhile", quotaAt("u", "6"), "u", "", time.Hour, false},
		"created by another":     {"the name was taken, and there is no way to make it", quotaAt("v", "6"), "u", "", time.Hour, true},
		"not changed":            {"the request came to nothing", quotaAt("u", "5"), "u", "5", pendingTime, true},
		"not changed yet":        {"the request may still be on its way", quotaAt("u", "5"), "u", "5", pendingTime - 1, false},
		"changed":                {"it was made meanwhile, or something else was", quotaAt("u", "6"), "u", "5", time.Hour, false},
		"deleted":                {"it may have been made before", nil, "u", "5", time.Hour, false},
		"deleted and made again": {"it may have been made before", quotaAt("v", "7"), "u", "5", time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				live := fake.NewClientBuilder().WithScheme(scheme.Scheme)
				if tt.there != nil {
					live = live.WithObjects(tt.there)
				}
				canceled := &canceling{}
				c := &Controller{PendingTime: pendingTime, Ledgers: canceled, Live: live.Build()}
				pending := []caps.QuotaChange{changeOf(tt.uid, tt.replaces)}
				hear(t, c, pending, tt.ago)
				if err := c.expire(t.Context(), "acme", pending); err != nil {
					t.Fatal(err)
				}
				var want []string
				if tt.want {
					want = []string{"acme/raise"}
				}
				if diff := cmp.Diff(want, canceled.ids); diff != "" {
					t.Errorf("%s: forgotten (-want +got):\n%s", tt.reason, diff)
				}
			})
		})
	}
}

// A change with a failed read stays pending, and does not keep others from expiring.
func TestExpireFails(t *testing.T) {
	synctest.Test(t, testExpireFails)
}

func testExpireFails(t *testing.T) {
	refused, lost := errors.New("connection refused"), "lost"
	canceled := &canceling{fails: lost}
	c := &Controller{PendingTime: pendingTime, Ledgers: canceled, Live: fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, under client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if key.Name == "unreadable" {
				return refused
			}
			return under.Get(ctx, key, object, options...)
		},
	}).Build()}
	var pending []caps.QuotaChange
	for _, name := range []string{"unreadable", lost, "last"} {
		change := changeOf("u", "")
		change.ID, change.Name = name, name
		pending = append(pending, change)
	}
	hear(t, c, pending, time.Hour)
	err := c.expire(t.Context(), "acme", pending)
	const want = "check whether ResourceQuota web/unreadable was changed: connection refused\nthe ledger did not answer"
	if err == nil || err.Error() != want || !errors.Is(err, refused) {
		t.Errorf("got %v, want %s", err, want)
	}
	if diff := cmp.Diff([]string{"acme/last"}, canceled.ids); diff != "" {
		t.Errorf("forgotten (-want +got):\n%s", diff)
	}
}
