package quotacache

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/bursar/bursar/internal/allocation"
	"github.com/bursar/bursar/internal/allocation/allocationstore"
	"github.com/bursar/bursar/test/quiet"
)

func (w *world) wantPods(reason, versions string, want map[string]string) {
	w.Helper()
	pods, at := w.pods()
	if diff := cmp.Diff(want, pods); diff != "" {
		w.Errorf("%s (-want +got):\n%s", reason, diff)
	}
	if at != versions {
		w.Errorf("%s: everything is as at versions %s, want %s", reason, at, versions)
	}
}

// A watch does not take back the knowledge from a later list.
func TestWatchBehindList(t *testing.T) {
	inWorld(t, func(w *world) {
		w.api.has("10", []*corev1.Namespace{namespace("web", "2", "team=acme"), namespace("gone", "3")},
			[]*corev1.ResourceQuota{quotaOf("web", "default", "9", "pods=1"), quotaOf("web", "gone", "9", "pods=9"), quotaOf("gone", "default", "9", "pods=1")})
		w.follow()
		w.wantPods("listed", "10/10", map[string]string{"web": "9", "gone": "1"})

		w.api.has("20", []*corev1.Namespace{namespace("web", "18", "team=other"), namespace("new", "12")},
			[]*corev1.ResourceQuota{quotaOf("web", "default", "17", "pods=8"), as(quotaOf("new", "default", "19", "pods=5"), "second")})
		w.must(w.quotas.Refresh(w.Context(), time.Now()))
		refreshed := map[string]string{"web": "8", "new": "5"}
		w.wantPods("refreshed", "20/20", refreshed)
		w.sinceThen()

		for _, e := range []struct {
			kind   watch.EventType
			object runtime.Object
		}{
			{watch.Modified, namespace("web", "11", "team=acme")},
			{watch.Added, namespace("new", "12", "team=acme")},
			{watch.Deleted, namespace("gone", "13")},
			{watch.Modified, namespace("web", "18", "team=other")},
			{watch.Modified, quotaOf("web", "default", "11", "pods=3")},
			{watch.Deleted, quotaOf("gone", "default", "12", "pods=1")},
			{watch.Modified, quotaOf("web", "gone", "12", "pods=10")},
			{watch.Added, as(quotaOf("new", "default", "14", "pods=50"), "first")},
			{watch.Deleted, as(quotaOf("new", "default", "15", "pods=50"), "first")},
			{watch.Added, as(quotaOf("new", "default", "19", "pods=5"), "second")},
			{watch.Bookmark, namespace("", "19")},
			{watch.Bookmark, quotaOf("", "", "19")},
		} {
			w.event(e.kind, e.object)
			w.wantPods("a watch that is behind", "20/20", refreshed)
		}
		if told := w.sinceThen(); told != nil {
			w.Errorf("what is known already is told as new: %v", told)
		}
		o := w.quotas.Observe(labels.Everything(), "", []allocation.QuotaChange{changeOf(as(quotaOf("new", "default", ""), "first"))})
		if !o.Deleted["first"] {
			w.Error("a deletion that was behind is not told")
		}

		w.event(watch.Modified, quotaOf("web", "default", "25", "pods=2"))
		w.event(watch.Deleted, namespace("new", "26"))
		w.wantPods("the watch got on", "26/25", map[string]string{"web": "2"})
	})
}

// A list from the cache of one API server may be older than the answer of another one.
func TestListBehindList(t *testing.T) {
	inWorld(t, func(w *world) {
		w.api.has("20", []*corev1.Namespace{namespace("web", "2")}, []*corev1.ResourceQuota{quotaOf("web", "default", "15", "pods=8")})
		w.must(w.quotas.Refresh(w.Context(), time.Now()))
		w.api.has("9", []*corev1.Namespace{namespace("web", "2")}, []*corev1.ResourceQuota{quotaOf("web", "default", "9", "pods=1")})
		w.follow()
		w.wantPods("an earlier list", "20/20", map[string]string{"web": "8"})
		w.event(watch.Modified, quotaOf("web", "default", "10", "pods=2"))
		w.wantPods("its watch", "20/20", map[string]string{"web": "8"})
		w.event(watch.Modified, quotaOf("web", "default", "100", "pods=3"))
		w.wantPods("versions are numbers", "20/100", map[string]string{"web": "3"})
	})
}

// A cache may have to end before it has both lists.
func TestEndBeforeTheLists(t *testing.T) {
	quiet.Libraries()
	inWorld(t, func(w *world) {
		w.api.fails = "resourcequotas"
		ctx, cancel := context.WithCancel(w.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.quotas.Run(ctx)
		}()
		synctest.Wait()
		cancel()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			w.Error("it still runs a minute after the end of its context")
		}
	})
}

// Bookmarks prove the absence of changes.
func TestBookmarks(t *testing.T) {
	inWorld(t, func(w *world) {
		w.api.has("10", []*corev1.Namespace{namespace("web", "2")}, []*corev1.ResourceQuota{quotaOf("web", "default", "9", "pods=1")})
		w.follow()
		w.event(watch.Bookmark, namespace("", "30"))
		w.wantPods("of namespaces", "30/10", map[string]string{"web": "1"})
		w.event(watch.Bookmark, quotaOf("", "", "40"))
		w.wantPods("of ResourceQuotas", "30/40", map[string]string{"web": "1"})
		if told := w.sinceThen(); told != nil {
			w.Errorf("it is told as a change: %v", told)
		}
	})
}

// A ResourceQuota came and went before the first observation. Its change must not wait for it.
func TestDeletionsAreRemembered(t *testing.T) {
	if deletedTTL < 2*allocationstore.PendingMax {
		t.Errorf("a deletion is remembered for %s, and a change may be pending for %s", deletedTTL, allocationstore.PendingMax)
	}
	inWorld(t, func(w *world) {
		first, second := as(quotaOf("web", "default", "11", "pods=3"), "first"), as(quotaOf("web", "default", "13", "pods=4"), "second")
		changes := []allocation.QuotaChange{changeOf(first), changeOf(second)}
		w.api.has("10", []*corev1.Namespace{namespace("web", "2")}, nil)
		w.follow()
		want := func(reason string, quotas map[types.NamespacedName]allocation.QuotaVersion, gone map[types.UID]bool) {
			w.Helper()
			o := w.quotas.Observe(labels.Everything(), "", changes)
			if diff := cmp.Diff(quotas, o.Quotas); diff != "" {
				w.Errorf("%s: ResourceQuotas (-want +got):\n%s", reason, diff)
			}
			if diff := cmp.Diff(gone, o.Deleted); diff != "" {
				w.Errorf("%s: gone (-want +got):\n%s", reason, diff)
			}
		}
		type quotas = map[types.NamespacedName]allocation.QuotaVersion
		type gone = map[types.UID]bool
		name := types.NamespacedName{Namespace: "web", Name: "default"}
		want("neither was seen", quotas{}, gone{})
		w.event(watch.Added, first.DeepCopy())
		want("the first is there", quotas{name: {UID: "first", ResourceVersion: "11"}}, gone{})
		w.event(watch.Deleted, as(quotaOf("web", "default", "12", "pods=3"), "first"))
		want("it went", quotas{}, gone{"first": true})
		w.event(watch.Added, second)
		want("another by its name came", quotas{name: {UID: "second", ResourceVersion: "13"}}, gone{"first": true})
		time.Sleep(deletedTTL - time.Second)
		want("a change may be pending that long", quotas{name: {UID: "second", ResourceVersion: "13"}}, gone{"first": true})
		time.Sleep(time.Second)
		want("no change is pending that long", quotas{name: {UID: "second", ResourceVersion: "13"}}, gone{})
		w.event(watch.Deleted, as(quotaOf("web", "default", "14", "pods=3"), "second"))
		want("the second went", quotas{}, gone{"second": true})
		if n := w.quotas.deleted.Len(); n != 1 {
			w.Errorf("%d deletions are remembered, want those of late", n)
		}
	})
}

// The cache notifies everybody who selects a namespace, or did before.
func TestOnChange(t *testing.T) {
	acme, other := labels.Set{"team": "acme"}, labels.Set{"team": "other"}
	annotated, counted := namespace("web", "11", "team=acme"), quotaOf("web", "default", "11", "pods=1")
	annotated.Annotations = map[string]string{"note": "new"}
	counted.Status.Used = counted.Spec.Hard
	for name, tt := range map[string]struct {
		reason string
		kind   watch.EventType
		object runtime.Object
		want   []told
	}{
		"namespace relabelled":     {"both have something to do", watch.Modified, namespace("web", "11", "team=other"), []told{{acme, other}}},
		"labels removed":           {"it is there, without any", watch.Modified, namespace("web", "11"), []told{{acme, labels.Set{}}}},
		"namespace annotated":      {"no selector is about that", watch.Modified, annotated, nil},
		"namespace created":        {"it was not there", watch.Added, namespace("shop", "11", "team=other"), []told{{nil, other}}},
		"created without labels":   {"an empty selector selects it", watch.Added, namespace("shop", "11"), []told{{nil, labels.Set{}}}},
		"namespace deleted":        {"it is not there", watch.Deleted, namespace("web", "11", "team=acme"), []told{{acme, nil}}},
		"of the system":            {"it is no member namespace", watch.Added, namespace(system, "11", "team=acme"), nil},
		"ResourceQuota raised":     {"its namespace takes more", watch.Modified, quotaOf("web", "default", "11", "pods=2"), []told{{acme, acme}}},
		"resource added":           {"its namespace takes more", watch.Modified, quotaOf("web", "default", "11", "pods=1", "services=1"), []told{{acme, acme}}},
		"ResourceQuota created":    {"its namespace takes more", watch.Added, quotaOf("web", "second", "11", "pods=1"), []told{{acme, acme}}},
		"ResourceQuota deleted":    {"its namespace takes less", watch.Deleted, quotaOf("web", "default", "11", "pods=1"), []told{{acme, acme}}},
		"ResourceQuota made again": {"changes of the one before are over", watch.Added, as(quotaOf("web", "default", "11", "pods=1"), "second"), []told{{acme, acme}}},
		"other scopes": {"others count it", watch.Modified,
			as(quotaOf("web", "default", "11", "pods=1"), "web/default", corev1.ResourceQuotaScopeTerminating), []told{{acme, acme}}},
		"used":                 {"it gives what it gave", watch.Modified, counted, nil},
		"of the system's":      {"it does not count", watch.Added, quotaOf("kube-system", "default", "11", "pods=1"), nil},
		"of no namespace seen": {"it is told with the namespace", watch.Added, quotaOf("shop", "default", "11", "pods=1"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.api.has("10", []*corev1.Namespace{namespace("web", "2", "team=acme"), namespace("kube-system", "3")},
					[]*corev1.ResourceQuota{quotaOf("web", "default", "9", "pods=1")})
				w.follow()
				w.event(tt.kind, tt.object)
				if diff := cmp.Diff(tt.want, w.sinceThen()); diff != "" {
					w.Errorf("%s (-want +got):\n%s", tt.reason, diff)
				}
			})
		})
	}
}
