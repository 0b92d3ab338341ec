package quotacache

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bursar/bursar/internal/allocation"
)

func TestObserve(t *testing.T) {
	terminating := []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}
	inWorld(t, func(w *world) {
		w.api.has("10",
			[]*corev1.Namespace{
				namespace("web", "2", "team=acme"), namespace("shop", "3", "team=acme"), namespace("other", "4", "team=other"),
				namespace("kube-system", "5", "team=acme"), namespace(system, "6", "team=acme"),
			},
			[]*corev1.ResourceQuota{
				quotaOf("web", "a", "7", "pods=5", "services=1"), quotaOf("web", "b", "7", "pods=3", "services=2", "secrets=1"), quotaOf("web", "c", "7"),
				as(quotaOf("web", "d", "7", "pods=50"), "d", terminating...),
				quotaOf("other", "default", "7", "pods=7"), quotaOf("kube-system", "default", "7", "pods=90"), quotaOf("nowhere", "default", "7", "pods=90"),
			})
		w.follow()
		for name, tt := range map[string]struct {
			reason string
			labels labels.Set
			scopes []corev1.ResourceQuotaScope
			want   map[string][]string
		}{
			"team": {"of each resource the largest amount counts, and a namespace without ResourceQuotas takes nothing",
				labels.Set{"team": "acme"}, nil, map[string][]string{"web": {"pods=5", "services=2", "secrets=1"}, "shop": nil}},
			"everybody": {"the namespaces of the system are left alone",
				nil, nil, map[string][]string{"web": {"pods=5", "services=2", "secrets=1"}, "shop": nil, "other": {"pods=7"}}},
			"scopes": {"those with the same scopes count, and no others",
				labels.Set{"team": "acme"}, terminating, map[string][]string{"web": {"pods=50"}, "shop": nil}},
			"nobody": {"it selects nothing", labels.Set{"team": "none"}, nil, map[string][]string{}},
		} {
			scopes := allocation.ScopesOf(&corev1.ResourceQuotaSpec{Scopes: tt.scopes})
			got := w.quotas.Observe(tt.labels.AsSelector(), scopes, nil).Used
			want := map[string]corev1.ResourceList{}
			for namespace, hard := range tt.want {
				if want[namespace] = nil; hard != nil {
					want[namespace] = allocation.Limits(quotaOf("", "", "", hard...).Spec.Hard) // under every name
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				w.Errorf("%s: %s (-want +got):\n%s", name, tt.reason, diff)
			}
		}
		if diff := cmp.Diff([]string{"shop", "web"}, w.quotas.Selected(labels.Set{"team": "acme"}.AsSelector())); diff != "" {
			w.Errorf("selected (-want +got):\n%s", diff)
		}
	})
}

// Refresh lists only if there was no list since. Concurrent callers share one list.
func TestRefreshIsShared(t *testing.T) {
	inWorld(t, func(w *world) {
		w.api.delay = 2 * time.Second // of each list; there are two
		start := time.Now()
		for _, c := range []struct {
			reason       string
			after, since time.Duration // from the start
			took         time.Duration
			lists        int
		}{
			{"nothing is known", 0, 0, 4 * time.Second, 1},
			{"the first began by then", time.Second, 0, 3 * time.Second, 1},
			{"the first began before", 2 * time.Second, time.Second, 6 * time.Second, 2},
			{"the second began by then", 10 * time.Second, 4 * time.Second, 0, 2},
			{"the second began before", 20 * time.Second, 5 * time.Second, 4 * time.Second, 3},
		} {
			time.AfterFunc(c.after, func() {
				if err := w.quotas.Refresh(w.Context(), start.Add(c.since)); err != nil {
					w.Errorf("%s: %v", c.reason, err)
				}
				w.api.mu.Lock()
				defer w.api.mu.Unlock()
				if took := time.Since(start) - c.after; took != c.took || w.api.listed["resourcequotas"] != c.lists {
					w.Errorf("%s: answered after %s and %d lists, want %s and %d", c.reason, took, w.api.listed["resourcequotas"], c.took, c.lists)
				}
			})
		}
		time.Sleep(time.Minute)
	})
}

func TestRefreshFails(t *testing.T) {
	for _, which := range []string{"namespaces", "resourcequotas"} {
		t.Run(which, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.api.has("10", []*corev1.Namespace{namespace("web", "2")}, []*corev1.ResourceQuota{quotaOf("web", "default", "9", "pods=1")})
				w.follow()
				w.api.has("20", nil, nil)
				w.api.fails = which
				since := time.Now()
				if err := w.quotas.Refresh(w.Context(), since); err == nil {
					w.Error("what could not be listed is taken for known")
				}
				w.wantPods("half of a list is none", "10/10", map[string]string{"web": "1"})
				w.api.fails = ""
				w.must(w.quotas.Refresh(w.Context(), since))
				w.wantPods("the next who asks lists again", "20/20", map[string]string{})
			})
		})
	}
}

// A caller without more time does not wait for others.
func TestRefreshEndsWithItsContext(t *testing.T) {
	inWorld(t, func(w *world) {
		w.api.delay = time.Minute
		go func() { _ = w.quotas.Refresh(w.Context(), time.Now()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err := w.quotas.Refresh(ctx, began)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != time.Second {
			w.Errorf("got %v after %s", err, took)
		}
		time.Sleep(time.Hour)
	})
}

func TestWaitForSync(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		if err := w.quotas.WaitForSync(ctx); !errors.Is(err, context.DeadlineExceeded) {
			w.Errorf("nothing is known yet, and it says %v", err)
		}
	})
}
