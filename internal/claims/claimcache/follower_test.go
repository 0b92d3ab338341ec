package claimcache

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/watch"
)

// recording is a follower that refuses the first list.
type recording struct {
	heard []string
	// known is the cache, and has is the size of the cache at each event.
	known *Cache
	has   []int
}

func (r *recording) note(event string) {
	r.heard = append(r.heard, event)
	r.has = append(r.has, len(r.known.Select(func(*Claim) bool { return true })))
}

func (r *recording) Replace(list []any, version string) error {
	for _, obj := range list {
		r.note("list " + obj.(*Claim).Name)
	}
	if version == "1" {
		return errors.New("refused")
	}
	return nil
}

func (r *recording) Add(obj any) error    { r.note("add " + obj.(*Claim).Name); return nil }
func (r *recording) Update(obj any) error { r.note("update " + obj.(*Claim).Name); return nil }
func (r *recording) Delete(obj any) error { r.note("delete " + obj.(*Claim).Name); return nil }
func (r *recording) Resync() error        { return nil }

func (r *recording) UpdateResourceVersion(version string) { r.note("version " + version) }

func (r *recording) ListBegins()                                        {}
func (r *recording) WatchBegins(opened watch.Interface) watch.Interface { return opened }

// TestFollower checks that a follower gets everything before the cache has it, and that the cache does not get what the
// follower refuses.
func TestFollower(t *testing.T) {
	t.Parallel()
	r := &recording{known: New()}
	s := &followedStore{store{r.known}, r}
	a, b := claimOf("a", "1", "acme", "object"), claimOf("b", "2", "other", "")

	if err := s.Replace([]any{item{Compact(b), "1"}}, "1"); err == nil || r.known.HasSynced() {
		t.Errorf("a list that the follower refuses ends with %v, and the cache has it: %t", err, r.known.HasSynced())
	}
	if err := errors.Join(s.Replace([]any{item{Compact(a), "2"}}, "2"), s.Add(b), s.Update(b), s.Delete(a)); err != nil {
		t.Fatal(err)
	}
	s.UpdateResourceVersion("9")

	if diff := cmp.Diff([]string{"list b", "list a", "add b", "update b", "delete a", "version 9"}, r.heard); diff != "" {
		t.Errorf("the follower hears (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{0, 0, 1, 2, 2, 1}, r.has); diff != "" {
		t.Errorf("the cache has so many claims at each event (-want +got):\n%s", diff)
	}
}
