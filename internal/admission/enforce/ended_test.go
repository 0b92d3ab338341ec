package enforce

import (
	"context"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/fake"

	"github.com/bursar/bursar/internal/admission/audited"
	"github.com/bursar/bursar/internal/kube/discoverycache"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/ledger"
)

// onlyMaps serves ConfigMaps.
type onlyMaps struct{}

func (onlyMaps) DefinitionDeleted(schema.GroupKind) bool { return false }

func (onlyMaps) StateOf(context.Context, schema.GroupKind) (discoverycache.State, schema.GroupVersionResource, error) {
	return discoverycache.Served, schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, nil
}

// A create has taken over the reservation of an earlier create of its name. The reservation ends once both have ended,
// and the earlier one made no object: until then that object may need it.
func TestReservationEndsWithAllCreatesOfItsName(t *testing.T) {
	for name, tt := range map[string]struct {
		reason string
		// admitted are the creates in their order, and ended those that end, in theirs.
		admitted, ended []types.UID
		// exists is the object that exists all the same, if any.
		exists types.UID
		isOver bool
	}{
		"one":                   {"nothing else needs it", []types.UID{"1"}, []types.UID{"1"}, "", true},
		"the later one":         {"the earlier one may come", []types.UID{"1", "2"}, []types.UID{"2"}, "", false},
		"the earlier one":       {"the later one may come", []types.UID{"1", "2"}, []types.UID{"1"}, "", false},
		"both":                  {"neither comes", []types.UID{"1", "2"}, []types.UID{"1", "2"}, "", true},
		"both, the later first": {"neither comes", []types.UID{"1", "2"}, []types.UID{"2", "1"}, "", true},
		"both, but one came":    {"the earlier object needs it", []types.UID{"1", "2"}, []types.UID{"2", "1"}, "1", false},
		"two of three":          {"the first one may come", []types.UID{"1", "2", "3"}, []types.UID{"3", "2"}, "", false},
		"all three":             {"none comes", []types.UID{"1", "2", "3"}, []types.UID{"2", "3", "1"}, "", true},
		"an unknown one":        {"another process decided it", []types.UID{"1"}, []types.UID{"x"}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, 1)
				s.policy("globex", "false")
				s.count()
				scheme := runtime.NewScheme()
				if err := metav1.AddMetaToScheme(scheme); err != nil {
					t.Fatal(err)
				}
				client := fake.NewSimpleMetadataClient(scheme)
				s.Objects = objectcache.New(client, onlyMaps{})
				for _, uid := range tt.admitted {
					if answer := s.reviewNamed("map", uid); !answer.Allowed || len(answer.AuditAnnotations) != 1 {
						t.Fatalf("the create of %s is not admitted with an audit annotation: %+v", uid, answer)
					}
				}
				if tt.exists != "" {
					storeMap(t, client, "map", tt.exists)
				}

				for _, uid := range tt.ended {
					s.End(audited.Review{Kind: "ConfigMap", UID: uid})
					synctest.Wait()
				}

				if last := tt.admitted[len(tt.admitted)-1]; s.Engine.IsOver(last) != tt.isOver {
					t.Errorf("%s: the reservation is over: %t, want %t", tt.reason, !tt.isOver, tt.isOver)
				}
			})
		})
	}
}

// A create that is denied has taken nothing over. So the one before it still holds what an earlier object of the name
// may need, also after its end.
func TestDeniedCreateTakesNothingOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 1)
		s.policy("globex", "false")
		s.count()
		s.Objects = absent()
		s.wantAllowed(s.reviewNamed("map", "1"))
		s.wantAllowed(s.reviewNamed("map", "2"))
		err := s.Store.SetGrants(t.Context(), organization("acme"), func(context.Context, []ledger.Grant) ([]ledger.Grant, error) { return nil, nil })
		if err != nil {
			t.Fatal(err)
		}
		if answer := s.reviewNamed("map", "3"); answer.Allowed {
			t.Fatal("admitted without quota")
		}

		s.End(audited.Review{Kind: "ConfigMap", UID: "2"})
		synctest.Wait()

		if s.Engine.IsOver("2") {
			t.Error("the reservation ended that the first object may need")
		}
	})
}
