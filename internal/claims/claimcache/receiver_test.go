package claimcache

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/watch"
)

// recording is a receiver that refuses the first list.
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

func (r *recording) EventBegins() (end func()) {
	return func() { r.note("end") }
}

func (r *recording) ListBegins()                                        {}
func (r *recording) WatchBegins(opened watch.Interface) watch.Interface { return opened }

// TestReceiver checks that a receiver gets everything before the cache has it, and that the cache does not get a list
// that the receiver refuses. An event ends only once the cache has it.
func TestReceiver(t *testing.T) {
	t.Parallel()
	r := &recording{known: New()}
	s := &sharedStore{store{r.known}, r}
	a, b := claimOf("a", "1", "acme", "object"), claimOf("b", "2", "other", "")

	if err := s.Replace([]any{item{Compact(b), "1"}}, "1"); err == nil || r.known.HasSynced() {
		t.Errorf("a list that the receiver refuses ends with %v, and the cache has it: %t", err, r.known.HasSynced())
	}
	if err := errors.Join(s.Replace([]any{item{Compact(a), "2"}}, "2"), s.Add(b), s.Update(b), s.Delete(a)); err != nil {
		t.Fatal(err)
	}
	s.UpdateResourceVersion("9")

	if diff := cmp.Diff([]string{"list b", "end", "list a", "end", "add b", "end", "update b", "end", "delete a", "end", "version 9"}, r.heard); diff != "" {
		t.Errorf("the receiver hears (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{0, 0, 0, 1, 1, 2, 2, 2, 2, 1, 1}, r.has); diff != "" {
		t.Errorf("the cache has so many claims at each event (-want +got):\n%s", diff)
	}
}
