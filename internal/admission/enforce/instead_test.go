package enforce

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/fake"

	"github.com/bursar/bursar/internal/protected"
)

// Creates of one name that fail one after the other hold quota once, and what of them appears after all is charged.
func TestCreatesOfOneNameHoldQuotaOnce(t *testing.T) {
	s := newScene(t, 1)
	s.policy("globex", "false")
	s.Objects = absent()
	var restored []types.UID
	s.Restore = func(_ schema.GroupKind, uid types.UID, policy string) {
		if policy != "acme" {
			t.Errorf("restored for policy %s", policy)
		}
		restored = append(restored, uid)
	}
	for _, uid := range []types.UID{"1", "2", "3"} {
		if answer := s.reviewNamed("map", uid); !answer.Allowed {
			t.Fatalf("attempt %s is denied what the one before holds: %s", uid, answer.Result.Message)
		}
		s.wantReservations(1, 0)
		if got := s.memory.Books(organization("acme")).Reservations[0].Key; got != "acme/"+string(uid) {
			t.Errorf("after attempt %s %s is reserved", uid, got)
		}
	}
	s.wantRefused(s.review("4"), http.StatusForbidden, "used: 1, limited: 1")
	if s.reviewed.revisionOf("1") != 0 || s.reviewed.revisionOf("3") == 0 {
		t.Error("what holds nothing any more counts as reviewed, or what does hold it does not")
	}
	kind := schema.GroupKind{Kind: "ConfigMap"}
	s.Appeared(kind, "3")
	s.Appeared(kind, "2")
	if len(restored) != 1 || restored[0] != "2" {
		t.Errorf("restored %v, want the one attempt that came to something after all", restored)
	}
}

// absent is an API server that has no objects.
func absent() *protected.Objects {
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		panic(err)
	}
	return protected.New(fake.NewSimpleMetadataClient(scheme), nil)
}
