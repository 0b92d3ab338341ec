package claimcache

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// A process writes claims while it still waits for its first list of claims.
func TestNote(t *testing.T) {
	at := func(version, name, uid string) *quotav1alpha1.ResourceClaim {
		claim := claimOf(name, uid, "acme", "object-"+name)
		claim.ResourceVersion = version
		return claim
	}
	c := New()
	var heard []string
	c.OnChange(func(before, after *Claim) {
		switch {
		case before == nil:
			heard = append(heard, "+"+string(after.UID))
		case after == nil:
			heard = append(heard, "-"+string(before.UID))
		default:
			heard = append(heard, string(after.UID))
		}
	})
	c.RecordWrite(at("12", "listed", "1"))
	c.RecordWrite(at("13", "gone", "2"))
	c.RecordWrite(at("25", "written", "3"))
	c.RecordWrite(at("26", "changed", "4"))
	c.RecordWrite(at("21", "changed", "4"))
	if len(c.ForObject("object-written")) != 1 {
		t.Error("a claim that was written is not there before the list is")
	}
	s := &store{c}
	if err := s.Replace([]any{at("12", "listed", "1"), at("20", "changed", "4"), at("9", "other", "5")}, "20"); err != nil {
		t.Fatal(err)
	}
	c.RecordWrite(at("15", "gone", "2")) // the answer to a write comes late
	for name, want := range map[string]bool{"listed": true, "gone": false, "written": true, "changed": true, "other": true} {
		if got := c.Get(types.NamespacedName{Namespace: "n", Name: name}) != nil; got != want {
			t.Errorf("claim %s is there: %t, want %t", name, got, want)
		}
	}
	if !c.HasSynced() {
		t.Error("the list is not there")
	}
	if diff := cmp.Diff([]string{"+1", "+2", "+3", "+4", "1", "+5", "-2"}, heard); diff != "" {
		t.Errorf("what handlers hear (-want +got):\n%s", diff)
	}
}
