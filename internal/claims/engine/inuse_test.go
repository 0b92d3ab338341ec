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
		change       func(*quotav1alpha1.ClaimCreationPolicy)
		want         bool
	}{
		"both exist":         {"the claim pays", true, false, true, true, nil, true},
		"a new policy":       {"the cache does not have it yet", true, false, false, true, nil, true},
		"the policy is gone": {"nothing keeps its claims", true, false, false, false, nil, false},
		"the object is gone": {"there is nothing to pay for", false, false, true, true, nil, false},
		"it vanished":        {"the watch has said so already", true, true, true, true, nil, false},
		"another policy has its name": {
			"that one counts the object itself", true, false, true, true,
			func(p *quotav1alpha1.ClaimCreationPolicy) {
				p.Spec.Target.ResourceClaimTemplate.Metadata.Annotations = nil
			}, false,
		},
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
				if err := objects.Tracker().Create(fleetResource, storedFleet(), "ns"); err != nil {
					t.Fatal(err)
				}
			}

			reader := func(hasPolicy bool) client.Reader {
				if !hasPolicy {
					return fake.NewClientBuilder().WithScheme(scheme).Build()
				}
				policy := fleets()
				if tt.change != nil {
					tt.change(policy)
				}
				return fake.NewClientBuilder().WithScheme(scheme).WithObjects(policy).Build()
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
