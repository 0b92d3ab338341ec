package reviewed

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
)

// replica asks one replica by HTTP.
type replica struct{ http.Handler }

func (r replica) AskAll(_ context.Context, path string, question []byte) [][]byte {
	answer := httptest.NewRecorder()
	r.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(question)))
	if answer.Code != http.StatusOK {
		return nil
	}
	return [][]byte{answer.Body.Bytes(), []byte("no answer")}
}

func newCatalog(t *testing.T) *catalog.Catalog {
	t.Helper()
	known := catalog.New()
	registration := &quotav1alpha1.ResourceRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: "maps"},
		Spec:       quotav1alpha1.ResourceRegistrationSpec{ResourceType: "maps", ConsumerTypeRef: quotav1alpha1.ConsumerTypeRef{APIGroup: "g", Kind: "Org"}, ClaimingResources: []quotav1alpha1.ClaimingResource{{Kind: "ConfigMap"}}},
	}
	apimeta.SetStatusCondition(&registration.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue})
	known.SetRegistration(registration)
	if errs := known.SetPolicy(&quotav1alpha1.ClaimCreationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 1},
		Spec: quotav1alpha1.ClaimCreationPolicySpec{
			Trigger: quotav1alpha1.ClaimTrigger{Resource: quotav1alpha1.ClaimTriggerResource{APIVersion: "v1", Kind: "ConfigMap"}},
			Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{
				Spec: quotav1alpha1.ResourceClaimTemplateSpec{
					ConsumerRef: quotav1alpha1.ConsumerRef{APIGroup: "g", Kind: "Org", Name: "acme"},
					Requests:    []quotav1alpha1.ResourceRequestTemplate{{ResourceType: "maps", Amount: 1}},
				},
			}},
		},
	}); len(errs) > 0 {
		t.Fatal(errs)
	}
	return known
}

// TestReviewedIsSharedWithOthers asks a replica for its decided objects, as another replica would.
func TestReviewedIsSharedWithOthers(t *testing.T) {
	known := newCatalog(t)
	objects := New(known, time.Minute, logr.Discard())
	objects.Add("reviewed", known.Revision())
	mux := http.NewServeMux()
	mux.Handle(objects.Handler())
	current := known.Policy("p")
	changed := *current
	changed.Generation++
	ask := func(p *catalog.Policy) []types.UID {
		return objects.AskOthers(t.Context(), replica{mux}, []types.UID{"other", "reviewed"}, p)
	}
	if got := ask(current); len(got) != 1 || got[0] != "reviewed" {
		t.Errorf("of the objects that were decided it says %q", got)
	}
	if got := ask(&changed); len(got) != 0 {
		t.Errorf("of a later generation of the policy it says %q", got)
	}
}

// Nothing has charged an object yet that a policy charges once it exists. So nobody may rely on its review.
func TestUnchargedObjectsAreNotReviewed(t *testing.T) {
	known := newCatalog(t)
	objects := New(known, time.Minute, logr.Discard())
	mux := http.NewServeMux()
	mux.Handle(objects.Handler())
	p := known.Policy("p")

	objects.Add("by p", known.Revision(), "p")
	objects.Add("by another", known.Revision(), "q")

	if objects.Has("by p", p) || !objects.Has("by another", p) {
		t.Error("policy p has yet to charge the first object and no other")
	}
	if got := objects.AskOthers(t.Context(), replica{mux}, []types.UID{"by p", "by another"}, p); len(got) != 1 || got[0] != "by another" {
		t.Errorf("another replica is told that these are reviewed: %q", got)
	}
}

// The set remembers an object for as long as it may still appear, and not for ever.
func TestObjectsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := newCatalog(t)
		objects := New(known, time.Minute, logr.Discard())
		objects.Add("a", known.Revision())
		time.Sleep(time.Minute + time.Second)
		if !objects.Has("a", known.Policy("p")) {
			t.Error("it was forgotten within the second minute")
		}
		time.Sleep(2 * time.Minute)
		if objects.Has("a", known.Policy("p")) {
			t.Error("it is remembered for ever")
		}
	})
}
