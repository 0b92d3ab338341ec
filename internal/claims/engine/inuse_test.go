package engine_test

import (
	"testing"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/kube/objectcache"
)

// A policy's claim pays for its object as long as both the object and the policy exist.
func TestPolicysClaimIsInUse(t *testing.T) {
	for name, tt := range map[string]struct {
		reason string
		// hasObject is the truth on the API server; hasVanished means that the engine saw a deletion.
		hasObject, hasVanished bool
		// cached and live have the policy.
		cached, live bool
		want         bool
	}{
		"both exist":         {"the claim pays", true, false, true, true, true},
		"a new policy":       {"the cache does not have it yet", true, false, false, true, true},
		"the policy is gone": {"nothing keeps its claims", true, false, false, false, false},
		"the object is gone": {"there is nothing to pay for", false, false, true, true, false},
		"it vanished":        {"the watch has said so already", true, true, true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := metav1.AddMetaToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			if err := quotav1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			objects := metadatafake.NewSimpleMetadataClient(scheme)
			if tt.hasObject {
				if err := objects.Tracker().Create(fleetResource, &metav1.PartialObjectMetadata{
					TypeMeta:   metav1.TypeMeta{APIVersion: fleetKind.GroupVersion().String(), Kind: fleetKind.Kind},
					ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: fleetUID},
				}, "ns"); err != nil {
					t.Fatal(err)
				}
			}
			reader := func(hasPolicy bool) client.Reader {
				if !hasPolicy {
					return fake.NewClientBuilder().WithScheme(scheme).Build()
				}
				return fake.NewClientBuilder().WithScheme(scheme).WithObjects(fleets()).Build()
			}
			e := engine.New(engine.Dependencies{
				Objects: objectcache.New(objects, onlyFleets{}), Policies: []client.Reader{reader(tt.cached), reader(tt.live)}, Log: logr.Discard(),
			})
			t.Cleanup(e.Queue().ShutDown)
			if tt.hasVanished {
				e.Vanished(fleetUID, true)
			}
			stage := newStage(t)
			claim := stage.claim(stage.reserve(acme, 1), true)
			if got, err := e.InUse(t.Context(), claim); got != tt.want || err != nil {
				t.Errorf("%s: in use: %t, %v", tt.reason, got, err)
			}
		})
	}
}
