package engine

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// An object deleted and created again within a second is another object: the engine releases the claim of the first
// one.
func TestNamedObjectsAreDistinguished(t *testing.T) {
	named := newNamedObjects()
	for _, look := range []struct {
		reason        string
		claim, object string
		want          bool
	}{
		{"it is seen for the first time", "claim", "first", true},
		{"it is still there", "claim", "first", true},
		{"its name was taken", "claim", "second", false},
		{"the other one is still another", "claim", "second", false},
		{"another claim may wait for it", "later", "second", true},
	} {
		if got := named.isSame(types.UID(look.claim), types.UID(look.object)); got != look.want {
			t.Errorf("%s: got %t", look.reason, got)
		}
	}
}
