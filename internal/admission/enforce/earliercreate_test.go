package enforce

import (
	"net/http"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/kube/objectcache"
)

// Failing creates of one name, one after the other, hold quota once.
func TestCreatesOfOneNameHoldQuotaOnce(t *testing.T) {
	s := newScene(t, 1)
	s.policy("globex", "false")
	s.count()
	s.Objects = absent()
	for _, uid := range []types.UID{"1", "2", "3"} {
		if answer := s.reviewNamed("map", uid); !answer.Allowed {
			t.Fatalf("attempt %s is denied what the one before holds: %s", uid, answer.Result.Message)
		}
		s.wantReservations(1, 0)
		if got := s.memory.Snapshot(organization("acme")).Reservations[0].Key; got != "acme/"+string(uid) {
			t.Errorf("after attempt %s %s is reserved", uid, got)
		}
	}
	s.wantDenied(s.review("4"), http.StatusTooManyRequests, "requests in flight hold 1 map")
}

// With claims of record, each create holds its own quota: nobody could charge an object that appears after all.
func TestCreatesOfOneNameWithClaimsOfRecord(t *testing.T) {
	s := newScene(t, 1)
	s.policy("globex", "false")
	s.Objects = absent()
	s.wantAllowed(s.reviewNamed("map", "1"))
	s.wantDenied(s.reviewNamed("map", "2"), http.StatusForbidden, "used: 1, limited: 1")
}

// A create from before the policy enforced may hold quota beyond the limit. A later create of its name does not get it.
func TestOverdraftOfEarlierCreateStaysItsOwn(t *testing.T) {
	s := newScene(t, 1)
	s.policy("globex", "false")
	s.Objects = absent()
	if answer := s.review("full"); !answer.Allowed {
		t.Fatalf("denied: %s", answer.Result.Message)
	}
	s.policyWith("acme", "acme", "true", func(p *quotav1alpha1.ClaimCreationPolicySpec) { p.EnforcementMode = quotav1alpha1.EnforcementModeAudit })
	if answer := s.reviewNamed("map", "1"); !answer.Allowed {
		t.Fatalf("denied in the mode Audit: %s", answer.Result.Message)
	}
	s.policy("acme", "true")
	s.wantDenied(s.reviewNamed("map", "2"), http.StatusForbidden, "limited: 1")
}

// Somebody creates, deletes and creates an object again, and gets its quota back. The first object appears during the
// second review, and its deletion later.
func TestRecreateWhileTheFirstObjectIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 1)
		s.policy("globex", "false")
		var client *fake.FakeMetadataClient
		s.Objects, client = followed(t)
		s.Objects.OnAppear(s.Appeared)
		s.Objects.OnVanish(func(_ schema.GroupKind, uid types.UID) {
			if err := s.Store.Cancel(t.Context(), organization("acme"), "acme/"+string(uid), 0); err != nil {
				t.Error(err)
			}
		})
		if answer := s.reviewNamed("map", "1"); !answer.Allowed {
			t.Fatalf("refused: %s", answer.Result.Message)
		}

		isSeen := false
		client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			if !isSeen {
				isSeen = true
				storeMap(t, client, "map", "1")
			}
			return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "map")
		})

		if answer := s.reviewNamed("map", "2"); !answer.Allowed {
			t.Errorf("refused: %s", answer.Result.Message)
		}
		if !isSeen {
			t.Error("the review did not look for the first object")
		}
	})
}

// absent is an API server without objects.
func absent() *objectcache.Cache {
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		panic(err)
	}
	return objectcache.New(fake.NewSimpleMetadataClient(scheme), nil)
}

// followed follows ConfigMaps in a bubble of synctest. There are none.
func followed(t *testing.T) (*objectcache.Cache, *fake.FakeMetadataClient) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := fake.NewSimpleMetadataClient(scheme)
	objects := objectcache.New(client, nil)
	objects.Follow(t.Context(), map[schema.GroupKind]schema.GroupVersionResource{configMap.GroupKind(): {Version: "v1", Resource: "configmaps"}})
	if err := objects.WaitForSync(t.Context(), configMap.GroupKind()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // for the watch
	return objects, client
}

// listed is followed with a function to store a ConfigMap and wait until the watch has shown it.
func listed(t *testing.T) (objects *objectcache.Cache, store func(types.UID)) {
	t.Helper()
	objects, client := followed(t)
	return objects, func(uid types.UID) {
		t.Helper()
		storeMap(t, client, string(uid), uid)
		if objects.Presence(configMap.GroupKind(), uid) != objectcache.Present {
			t.Fatalf("ConfigMap %s was not seen", uid)
		}
	}
}

// storeMap stores a ConfigMap and waits for its watchers.
func storeMap(t *testing.T, client *fake.FakeMetadataClient, name string, uid types.UID) {
	t.Helper()
	err := client.Tracker().Add(&metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: uid},
	})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}
