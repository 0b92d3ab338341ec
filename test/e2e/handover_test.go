package e2e

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bursar/bursar/test/platform"
)

// Bursar admits a change of the payer, and somebody else refuses it. No charge stays behind once the object has changed
// in another way.
func TestHandOverThatIsNotMade(t *testing.T) {
	t.Parallel()
	f := newFollowedWorld(t, 5, nil)
	other := f.name + "-other"
	f.grantTo(other, "other", 3)
	f.mustCreate(f.fleet("a", 2))
	f.wantBucket(5, 2, 3, 1)
	f.refused(func() error { return f.set("a", other, "spec", "payer") })
	eventually(f, func() error { return f.set("a", "x", "spec", "note") })
	eventually(f, func() error {
		b := f.fleet("b", 3)
		must(t, unstructured.SetNestedField(b.Object, other, "spec", "payer"))
		return admin.Create(f.ctx, b)
	})
	f.wantBucketOf(platform.Consumer(other), 3, 3, 0, 1)
	f.wantBucket(5, 2, 3, 1)
}

// A change of the payer, refused by somebody else, can succeed on the next attempt. It does not block other changes of
// the object.
func TestHandOverThatIsRefusedElsewhere(t *testing.T) {
	t.Parallel()
	f := newFollowedWorld(t, 5, nil)
	other := f.name + "-other"
	f.grantTo(other, "other", 3)
	f.mustCreate(f.fleet("a", 2))
	f.wantBucket(5, 2, 3, 1)
	f.refused(func() error { return f.set("a", other, "spec", "payer") })
	eventually(f, func() error { return f.resize("a", 3) })
	f.wantBucket(5, 3, 2, 1)
	must(t, f.set("a", other, "spec", "payer"))
	f.wantBucket(5, 0, 5, 0)
	f.wantBucketOf(platform.Consumer(other), 3, 3, 0, 1)
}
