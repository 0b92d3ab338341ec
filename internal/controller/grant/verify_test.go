package grant

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

var acme = quotav1alpha1.ConsumerRef{Kind: "Organization", Name: "acme"}

// reader has grants by name, and counts its reads.
type reader struct {
	grants        map[string]*quotav1alpha1.ResourceGrant
	registrations []quotav1alpha1.ResourceRegistration
	gets, lists   int
}

func (r *reader) Get(_ context.Context, name client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	r.gets++
	grant := r.grants[name.Name]
	if grant == nil {
		return apierrors.NewNotFound(schema.GroupResource{}, name.Name)
	}
	grant.DeepCopyInto(into.(*quotav1alpha1.ResourceGrant))
	return nil
}

func (r *reader) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	r.lists++
	if list, ok := into.(*quotav1alpha1.ResourceRegistrationList); ok {
		list.Items = r.registrations
		return nil
	}
	list := into.(*quotav1alpha1.ResourceGrantList)
	for _, name := range slices.Sorted(maps.Keys(r.grants)) {
		list.Items = append(list.Items, *r.grants[name])
	}
	return nil
}

// given makes grants of acme's of an amount each.
func given(amount int64, names ...string) []*quotav1alpha1.ResourceGrant {
	var grants []*quotav1alpha1.ResourceGrant
	for _, name := range names {
		grant := grantOf(name, amount)
		grant.Spec.ConsumerRef = acme
		grants = append(grants, grant)
	}
	return grants
}

// with changes copies of grants.
func with(change func(*quotav1alpha1.ResourceGrant), grants []*quotav1alpha1.ResourceGrant) []*quotav1alpha1.ResourceGrant {
	for i := range grants {
		grants[i] = grants[i].DeepCopy()
		change(grants[i])
	}
	return grants
}

func entriesOf(t *testing.T, grants []*quotav1alpha1.ResourceGrant) []ledger.Grant {
	t.Helper()
	var entries []ledger.Grant
	for _, grant := range grants {
		entry, err := ledgerstore.GrantOf(grant, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, entry)
	}
	return entries
}

// A cache may lag by any number of changes.
func TestVerify(t *testing.T) {
	many := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}
	older := func(g *quotav1alpha1.ResourceGrant) { g.Generation--; g.Spec.Allowances[0].Buckets[0].Amount = 1000 }
	another := func(g *quotav1alpha1.ResourceGrant) { g.UID = types.UID("another-" + g.Name) }
	going := func(g *quotav1alpha1.ResourceGrant) { g.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	elsewhere := func(g *quotav1alpha1.ResourceGrant) { g.Spec.ConsumerRef.Name = "somebody" }
	tests := map[string]struct {
		reason                   string
		cached, held, live, want []*quotav1alpha1.ResourceGrant
		gets, lists              int
	}{
		"same":             {"of what agrees nothing is asked", given(1, "a", "b"), given(1, "a", "b"), given(1, "a", "b"), given(1, "a", "b"), 0, 0},
		"new":              {"a grant that is there counts", given(1, "a"), nil, given(1, "a"), given(1, "a"), 1, 0},
		"gone, cached":     {"a grant that is gone is not added", given(1, "a", "b"), given(1, "a"), given(1, "a"), given(1, "a"), 1, 0},
		"going, cached":    {"one that is going neither", given(1, "a"), nil, with(going, given(1, "a")), nil, 1, 0},
		"gone":             {"a grant that is gone is removed", given(1, "a"), given(1, "a", "b"), given(1, "a"), given(1, "a"), 1, 0},
		"not cached yet":   {"a grant that is there stays", nil, given(1, "a"), given(1, "a"), given(1, "a"), 1, 0},
		"older, cached":    {"a former amount is not put back", with(older, given(1, "a")), given(1, "a"), given(1, "a"), given(1, "a"), 1, 0},
		"older than both":  {"what is there now counts, which neither the cache nor the ledger knows", with(older, given(1, "a")), nil, given(2, "a"), given(2, "a"), 1, 0},
		"made again":       {"a grant of the same name is another", given(1, "a"), given(1, "a", "b"), append(given(1, "a"), with(another, given(5, "b"))...), append(given(1, "a"), with(another, given(5, "b"))...), 1, 0},
		"made for another": {"and may be another consumer's", nil, given(1, "b"), with(elsewhere, with(another, given(5, "b"))), nil, 1, 0},
		"room":             {"what fits once another is gone is verified as well", append(given(math.MaxInt64, "a"), given(7, "b")...), nil, given(8, "b"), given(8, "b"), 2, 0},
		"many":             {"many are listed", given(1, many...), nil, given(1, many[1:]...), given(1, many[1:]...), 0, 1},
		"many in the end":  {"or listed once they are many", append(given(math.MaxInt64, "a"), given(7, many[1:]...)...), nil, given(8, many[1:]...), given(8, many[1:]...), 1, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			live := &reader{grants: map[string]*quotav1alpha1.ResourceGrant{}}
			for _, grant := range tt.live {
				live.grants[grant.Name] = grant
			}
			r := &Reconciler{Catalog: registered{"projects"}, Live: live, Clock: stopped(noon), Totals: NewTotals()}
			active, _, err := r.verify(t.Context(), acme, tt.cached, entriesOf(t, tt.held))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(entriesOf(t, tt.want), active, cmp.AllowUnexported(ledger.Selector{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
			if live.gets != tt.gets || live.lists != tt.lists {
				t.Errorf("%s: %d reads and %d lists, want %d and %d", tt.reason, live.gets, live.lists, tt.gets, tt.lists)
			}
		})
	}
}

func TestCheckAllowed(t *testing.T) {
	active := quotav1alpha1.ResourceRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: "projects"},
		Spec:       quotav1alpha1.ResourceRegistrationSpec{ResourceType: "projects"},
		Status:     quotav1alpha1.ResourceRegistrationStatus{Conditions: []metav1.Condition{{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue}}},
	}
	foreign := *active.DeepCopy()
	foreign.Spec.ConsumerTypeRef.Kind = "User"
	tests := map[string]struct {
		reason         string
		observed       int64
		catalog        registered
		registration   quotav1alpha1.ResourceRegistration
		want           error
		wantsItToCheck bool
	}{
		"active":  {"the catalog lags", 2, nil, active, errUndecided, true},
		"foreign": {"its registration is for others", 2, nil, foreign, nil, true},
		"decided": {"it has been decided before", 3, nil, active, nil, false},
		"valid":   {"it is active", 2, registered{"projects"}, active, nil, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			live := &reader{registrations: []quotav1alpha1.ResourceRegistration{tt.registration}}
			grant := grantOf("a", 1)
			grant.Status.ObservedGeneration = tt.observed
			r := &Reconciler{Catalog: tt.catalog, Live: live}
			_, results := r.evaluate([]*quotav1alpha1.ResourceGrant{grant}, time.Now(), nil)
			err := r.checkAllowed(t.Context(), results)
			if !errors.Is(err, tt.want) || (live.lists > 0) != tt.wantsItToCheck {
				t.Errorf("%s: got %v after %d lists", tt.reason, err, live.lists)
			}
		})
	}
}

// Stored knows the ledgers' grants at the start until somebody is about to change them.
func TestStored(t *testing.T) {
	grants := func(generation int64, names ...string) []ledger.Grant {
		return entriesOf(t, with(func(g *quotav1alpha1.ResourceGrant) { g.Generation = generation }, given(1, names...)))
	}
	s := NewStored(NewTotals())
	s.Add(acme, grants(1, "a", "b"))
	for range 2 {
		if !s.holds(acme, grants(1, "b", "a")) {
			t.Error("that a ledger holds what it was listed with is not known")
		}
	}
	for name, others := range map[string][]ledger.Grant{
		"fewer": grants(1, "a"), "others": grants(1, "a", "c"), "another generation": grants(2, "a", "b"), "none": nil,
	} {
		s.Add(acme, grants(1, "a", "b"))
		if s.holds(acme, others) {
			t.Errorf("%s: they are taken for those that are held", name)
		}
		if s.holds(acme, grants(1, "a", "b")) {
			t.Errorf("%s: once the ledger is to be changed it is not known what it holds", name)
		}
	}
	if s.holds(quotav1alpha1.ConsumerRef{Name: "somebody"}, nil) {
		t.Error("a ledger that was not listed is known")
	}
}
