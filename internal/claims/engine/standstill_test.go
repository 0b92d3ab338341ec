package engine_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/kube/objectcache"
)

// standing returns the engine of a process that stands still, apart from what a test has it do. It lists no objects.
func (s *stage) standing(existing ...runtime.Object) *engine.Engine {
	s.Helper()
	scheme := runtime.NewScheme()
	s.must(metav1.AddMetaToScheme(scheme))
	e := engine.New(engine.Dependencies{
		Store: s.store, Objects: objectcache.New(metadatafake.NewSimpleMetadataClient(scheme, existing...), onlyFleets{}), Claims: claimcache.New(),
		Client: s.server.Client(s), Catalog: catalog.New(), SystemNamespace: "sys", Log: logr.Discard(),
	})
	s.Cleanup(e.Queue().ShutDown)
	return e
}

// A process stands still before it makes the claim of its reservation. When it goes on, another one has seen to the
// reservation.
func TestProcessThatStoodStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		reservation := s.reserve(acme, 5)
		standing := s.standing()
		s.run(fleets(), fleet("1", "acme", 5))
		s.wantFinally("the other process makes the claim", "acme uses 5, 0 in flight", "claim of acme for 5")

		s.must(standing.Materialize(t.Context(), reservation))

		s.wantFinally("there is no second one", "acme uses 5, 0 in flight", "claim of acme for 5")
	})
}

// The claim of a reservation is there already: a process has sent it without an answer.
func TestClaimIsThereAlready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		reservation := s.reserve(acme, 5)
		s.server.Intercept(func(method, _ string) bool {
			if method == http.MethodPost {
				s.claim(reservation, true) // just before this one
			}
			return false
		})

		s.must(s.standing().Materialize(t.Context(), reservation))
		s.run(fleets(), fleet("1", "acme", 5))

		s.wantFinally("it is the claim of the object", "acme uses 5, 0 in flight", "claim of acme for 5")
	})
}

// A process makes a claim although its object never came, and another process has ended the reservation. The claim
// counts for as long as it exists, and goes.
func TestClaimWithoutAnObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		reservation := s.reserve(acme, 5)
		standing := s.standing()
		s.run(fleets(), nil)
		s.wantFinally("the object never came")
		isDeleted, mayGo := make(chan struct{}), make(chan struct{})
		s.server.Intercept(func(method, _ string) bool {
			if method == http.MethodDelete {
				close(isDeleted)
				<-mayGo
			}
			return false
		})

		s.must(standing.Materialize(t.Context(), reservation))
		<-isDeleted
		time.Sleep(observing)
		synctest.Wait()
		if used := s.memory.Snapshot(acme).Observations; len(used) != 1 || len(used[0].Demands) != 1 || used[0].Demands[0].Amount != 5 {
			t.Errorf("the ledger has observed %+v, want the claim", used)
		}
		close(mayGo)

		s.wantFinally("the claim is gone")
	})
}

// There are two claims of one object: its namespace refused claims, and an earlier attempt was still on its way. One of
// them goes, and the object counts once.
func TestTwins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		older := s.claim(s.reserve(acme, 5), true)
		younger := older.DeepCopy()
		younger.Namespace, younger.Name, younger.UID = "sys", "claim-b", "uid-claim-b"
		younger.CreationTimestamp = metav1.NewTime(older.CreationTimestamp.Add(time.Minute))
		s.server.Put(younger)

		s.run(fleets(), fleet("1", "acme", 5))

		s.wantFinally("one is left", "acme uses 5, 0 in flight", "claim of acme for 5")
		if s.server.Get(older.Name) == nil {
			t.Error("the older one is gone")
		}
	})
}

// The objects of the kind are not listed yet when both claims are known, as right after a start.
func TestTwinsOfAnObjectThatIsNotListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		older := s.claim(s.reserve(acme, 5), true)
		younger := older.DeepCopy()
		younger.Namespace, younger.Name, younger.UID = "sys", "claim-b", "uid-claim-b"
		younger.CreationTimestamp = metav1.NewTime(older.CreationTimestamp.Add(time.Minute))
		s.server.Put(younger)
		started := s.standing(storedFleet())
		go started.Claims.Run(t.Context(), s.server.Client(t).REST())
		s.must(started.Claims.WaitForSync(t.Context()))

		s.must(started.Process(t.Context(), theFleet))

		if claim := s.server.Get(younger.Name); claim == nil || claim.DeletionTimestamp == nil {
			t.Errorf("the younger claim is %+v, want it deleted", claim)
		}
	})
}

// A second review of a create comes after the claim of the first one counts. The claim has another name, because
// its own is taken.
func TestSecondReviewOfARenamedClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.server.Put(&quotav1alpha1.ResourceClaim{
			TypeMeta:   metav1.TypeMeta{APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ResourceClaim"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim-a", UID: "other", ResourceVersion: "1"},
			Spec:       quotav1alpha1.ResourceClaimSpec{ConsumerRef: zeta, Requests: []quotav1alpha1.ResourceRequest{{ResourceType: "t", Amount: 1}}},
		})
		want := []string{"acme uses 5, 0 in flight", "claim of acme for 5", "claim of zeta for 1", "zeta uses 1, 0 in flight"}
		s.reserve(acme, 5)
		s.run(fleets(), fleet("1", "acme", 5))
		s.wantFinally("the claim has another name", want...)

		s.store = s.newStore(context.WithoutCancel(t.Context()))
		s.reserve(acme, 5)
		s.run(fleets(), fleet("1", "acme", 5))

		s.wantFinally("there is one claim", want...)
	})
}
