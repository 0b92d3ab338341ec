package objectcache

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// news records the calls of handlers.
type news []string

func newKind() (*kind, *news) {
	notified := &news{}
	o := New(nil, nil)
	o.OnAppear(func(_ schema.GroupKind, uid types.UID) { *notified = append(*notified, "+"+string(uid)) })
	o.OnModify(func(_ schema.GroupKind, uid types.UID) { *notified = append(*notified, "~"+string(uid)) })
	o.OnVanish(func(_ schema.GroupKind, uid types.UID) { *notified = append(*notified, "-"+string(uid)) })
	o.OnDeleting(func(_ schema.GroupKind, uid types.UID) { *notified = append(*notified, "!"+string(uid)) })
	return &kind{
		owner: o, synced: make(chan struct{}),
		byName: map[types.NamespacedName]types.UID{}, uids: map[types.UID]types.NamespacedName{}, deleting: map[types.UID]struct{}{},
	}, notified
}

func object(name string, uid types.UID) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: uid}}
}

func deleted(object *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	now := metav1.Now()
	object.DeletionTimestamp = &now
	return object
}

func TestKindNotifies(t *testing.T) {
	tests := map[string]struct {
		reason string
		events func(k *kind) []error
		want   []string
	}{
		"add and delete": {"the plain case", func(k *kind) []error {
			return []error{k.Add(object("a", "1")), k.Delete(object("a", "1"))}
		}, []string{"+1", "-1"}},
		"update": {"a change to an object is told", func(k *kind) []error {
			return []error{k.Add(object("a", "1")), k.Update(object("a", "1"))}
		}, []string{"+1", "~1"}},
		"deletion begins": {"finalizers hold the object for a while", func(k *kind) []error {
			return []error{k.Add(object("a", "1")), k.Update(deleted(object("a", "1"))), k.Update(deleted(object("a", "1"))), k.Delete(object("a", "1"))}
		}, []string{"+1", "~1", "!1", "~1", "-1"}},
		"deletion began before the list": {"a start finds the object in the middle of its deletion", func(k *kind) []error {
			return []error{k.Replace([]any{deleted(object("a", "1"))}, ""), k.Update(deleted(object("a", "1")))}
		}, []string{"+1", "!1", "~1"}},
		"replaced by one under deletion": {"a new object may be on its way out, too", func(k *kind) []error {
			return []error{k.Add(object("a", "1")), k.Update(deleted(object("a", "2")))}
		}, []string{"+1", "-1", "+2", "!2"}},
		"replaced under its name": {"a missed deletion shows in the UID", func(k *kind) []error {
			return []error{k.Add(object("a", "1")), k.Update(object("a", "2"))}
		}, []string{"+1", "-1", "+2"}},
		"list": {"what a list lacks is gone", func(k *kind) []error {
			return []error{k.Add(object("a", "1")), k.Add(object("b", "2")),
				k.Replace([]any{object("b", "2"), object("c", "3")}, "")}
		}, []string{"+1", "+2", "~2", "+3", "-1"}},
		"reported gone": {"and its late deletion is no news", func(k *kind) []error {
			errs := []error{k.Add(object("a", "1"))}
			k.reportGone(types.NamespacedName{Namespace: "n", Name: "a"}, "1")
			return append(errs, k.Delete(object("a", "1")))
		}, []string{"+1", "-1"}},
		"reported gone too late": {"another object has the name by now", func(k *kind) []error {
			errs := []error{k.Add(object("a", "2"))}
			k.reportGone(types.NamespacedName{Namespace: "n", Name: "a"}, "1")
			return errs
		}, []string{"+2"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			k, notified := newKind()
			if errs := tt.events(k); slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
				t.Fatal(errs)
			}
			if diff := cmp.Diff(tt.want, []string(*notified)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

func TestPresence(t *testing.T) {
	k, _ := newKind()
	if got := k.presence("1"); got != Unknown {
		t.Errorf("before the first list: got %d, want Unknown", got)
	}
	if err := k.Replace([]any{object("a", "1")}, ""); err != nil {
		t.Fatal(err)
	}
	if got := k.presence("1"); got != Present {
		t.Errorf("listed: got %d, want Present", got)
	}
	if got := k.presence("2"); got != Absent {
		t.Errorf("not listed: got %d, want Absent", got)
	}
}
