package enforce

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/fake"

	"github.com/bursar/bursar/internal/kube/objectcache"
)

// Creates of one name that fail one after the other hold quota once, and what of them appears after all is charged.
func TestCreatesOfOneNameHoldQuotaOnce(t *testing.T) {
	s := newScene(t, 1)
	s.policy("globex", "false")
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
	s.wantDenied(s.review("4"), http.StatusForbidden, "used: 1, limited: 1")
	if p := s.Catalog.Policy("acme"); s.Reviewed.Has("1", p) || !s.Reviewed.Has("3", p) {
		t.Error("what holds nothing any more counts as reviewed, or what does hold it does not")
	}
	kind := schema.GroupKind{Kind: "ConfigMap"}
	s.Appeared(kind, "3")
	s.Appeared(kind, "2")
	if s.Engine.IsChanging("3") {
		t.Error("the object that holds quota is to be charged again")
	}
	if change, is := s.Engine.ChangeOf("2"); !is || !slices.Equal(change.Restored, []string{"acme"}) {
		t.Errorf("the attempt that came to something after all is restored for the policies %q", change.Restored)
	}
}

// absent is an API server that has no objects.
func absent() *objectcache.Cache {
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		panic(err)
	}
	return objectcache.New(fake.NewSimpleMetadataClient(scheme), nil)
}

// listed follows ConfigMaps, of which there are none until the function that it returns stores one.
func listed(t *testing.T) (objects *objectcache.Cache, store func(types.UID)) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client, kind := fake.NewSimpleMetadataClient(scheme), schema.GroupKind{Kind: "ConfigMap"}
	objects = objectcache.New(client, nil)
	objects.Follow(t.Context(), map[schema.GroupKind]schema.GroupVersionResource{kind: {Version: "v1", Resource: "configmaps"}})
	if err := objects.WaitForSync(t.Context(), kind); err != nil {
		t.Fatal(err)
	}
	return objects, func(uid types.UID) {
		t.Helper()
		stored := &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: string(uid), UID: uid},
		}
		if err := client.Tracker().Add(stored); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if objects.Presence(kind, uid) != objectcache.Present {
			t.Fatalf("ConfigMap %s was not seen", uid)
		}
	}
}
