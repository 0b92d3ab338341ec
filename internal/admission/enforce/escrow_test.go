package enforce

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// After two creates the replica holds quota for the next. It admits a create from that without a write, but only if
// the object counts after a crash.
func TestAdmittedWithoutWrite(t *testing.T) {
	tests := map[string]struct {
		reason string
		// change changes the policy of acme, and prepare anything else.
		change  func(*quotav1alpha1.ClaimCreationPolicySpec)
		prepare func(*scene)
		name    string
		uid     types.UID
		want    bool
	}{
		"like the first": {reason: "the quota is reserved", want: true},
		"not effective":  {reason: "a policy without a demand does not matter", prepare: func(s *scene) { s.policy("third", "false") }, want: true},
		"durable": {reason: "the policy asks for a write", change: func(p *quotav1alpha1.ClaimCreationPolicySpec) {
			counted(p)
			p.Admission = quotav1alpha1.AdmissionModeDurable
		}},
		"durable server":  {reason: "the server writes always", prepare: func(s *scene) { s.Store.IsDurable = true }},
		"of record":       {reason: "without its claim the object would not count", change: func(*quotav1alpha1.ClaimCreationPolicySpec) {}},
		"two consumers":   {reason: "both are charged or none", prepare: func(s *scene) { s.policy("globex", "true") }},
		"the same object": {reason: "it is charged once", name: "map-1", uid: "1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, 10_000)
				s.policy("globex", "false")
				s.count()
				for _, uid := range []types.UID{"0", "1"} {
					if answer := s.review(uid); !answer.Allowed {
						t.Fatalf("refused: %s", answer.Result.Message)
					}
				}
				if tt.change != nil {
					s.policyWith("acme", "acme", "true", tt.change)
				}
				if tt.prepare != nil {
					tt.prepare(s)
				}
				object, uid := "map-2", types.UID("2")
				if tt.name != "" {
					object = tt.name
				}
				if tt.uid != "" {
					uid = tt.uid
				}

				before := len(s.memory.Revisions(organization("acme")))
				answer := s.reviewNamed(object, uid)
				if !answer.Allowed {
					t.Fatalf("refused: %s", answer.Result.Message)
				}

				held := s.Store.ReservationsFor(string(uid))
				hasWritten := len(s.memory.Revisions(organization("acme"))) > before
				if len(held) == 0 || held[0].IsUnrecorded != tt.want || hasWritten == tt.want {
					t.Errorf("%s: held are %+v, written: %t", tt.reason, held, hasWritten)
				}

				time.Sleep(3 * time.Second) // of the test's own clock
				if held = s.Store.ReservationsFor(string(uid)); held[0].IsUnrecorded {
					t.Errorf("later, held are %+v", held)
				}
			})
		})
	}
}
