package catalog_test

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
)

// stored is a policy with the name, in the API server's form.
func stored(name string) *quotav1alpha1.ClaimCreationPolicy {
	return &quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1}}
}

func versionOf(policies ...*quotav1alpha1.ClaimCreationPolicy) catalog.Version {
	var items []quotav1alpha1.ClaimCreationPolicy
	for _, p := range policies {
		items = append(items, *p)
	}
	return catalog.VersionOf(items, nil)
}

// TestGate has a catalog with fewer, or more, objects than the version of a request.
func TestGate(t *testing.T) {
	a, b := stored("a"), stored("b")
	tests := map[string]struct {
		reason  string
		told    []*quotav1alpha1.ClaimCreationPolicy
		stored  []client.Object
		version catalog.Version
		current bool
	}{
		"same":    {"it was told of all", []*quotav1alpha1.ClaimCreationPolicy{a}, []client.Object{a}, versionOf(a), true},
		"ahead":   {"it was told of more since", []*quotav1alpha1.ClaimCreationPolicy{a, b}, []client.Object{a, b}, versionOf(a), true},
		"behind":  {"what the API server has it was not told of", []*quotav1alpha1.ClaimCreationPolicy{a}, []client.Object{a, b}, versionOf(a, b), false},
		"skipped": {"the API server has nothing else, so it is past what it does not know", []*quotav1alpha1.ClaimCreationPolicy{a}, []client.Object{a}, versionOf(b), true},
		"both":    {"it does not know the version, and is behind", []*quotav1alpha1.ClaimCreationPolicy{a}, []client.Object{a, b}, versionOf(b), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := quotav1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			known := catalog.New()
			g := catalog.PoliciesGate(known, fake.NewClientBuilder().WithScheme(scheme).WithObjects(tt.stored...).Build())
			for _, p := range tt.told {
				known.SetPolicy(p)
			}
			within := 100 * time.Millisecond
			if tt.current {
				within = time.Minute
			}
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			err := g.Wait(ctx, tt.version)
			if (err == nil) != tt.current {
				t.Errorf("%s: got %v, want current: %t", tt.reason, err, tt.current)
			}
			if err != nil && !strings.Contains(err.Error(), "has not loaded the current policies") {
				t.Errorf("%s: got %v", tt.reason, err)
			}
			if err == nil && !known.Has(tt.version) {
				t.Errorf("%s: the API server is asked again the next time", tt.reason)
			}
		})
	}
}
