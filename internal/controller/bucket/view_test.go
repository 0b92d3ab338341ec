package bucket

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

var acme = quotav1alpha1.ConsumerRef{APIGroup: "platform.example.com", Kind: "Organization", Name: "acme"}

// ledgerOf returns a ledger with grants of projects, some projects that exist, and reservations for one project each.
func ledgerOf(t *testing.T, granted map[string]ledger.Amount, existing, reserved int) *ledger.Ledger {
	t.Helper()
	var stored ledger.Snapshot
	for name, amount := range granted {
		stored.Grants = append(stored.Grants, ledger.Grant{UID: name, Name: name, Generation: 4, Allowances: []ledger.Allowance{
			{ResourceType: "projects", Amount: amount}, {ResourceType: "other", Amount: 1}, {ResourceType: "projects", Amount: 1},
		}})
	}
	if existing > 0 {
		demand := ledger.Demand{ResourceType: "projects", Amount: ledger.Amount(existing), Objects: int64(existing)}
		stored.Observations = []ledger.Observation{{Kind: "projects", Demands: []ledger.Demand{demand}}}
	}
	l, err := ledger.Restore(stored)
	if err != nil {
		t.Fatal(err)
	}

	for n := range reserved {
		key := string(rune('a' + n))
		d := l.ReserveOverdraft(ledger.Reservation{
			Key: key, Charges: []ledger.Charge{{ResourceType: "projects", Amount: 1}}, Awaits: &ledger.Awaited{Kind: "projects", ID: key},
		})
		if d.Code != ledger.Admitted {
			t.Fatalf("cannot reserve project %s: %s", key, d.Code)
		}
	}
	return l
}

func TestStatusOf(t *testing.T) {
	refs := []quotav1alpha1.ContributingGrantRef{
		{Name: "base", Amount: 3, LastObservedGeneration: 4}, {Name: "extra", Amount: 1, LastObservedGeneration: 4},
	}
	both := map[string]ledger.Amount{"base": 2, "extra": 0}
	tests := map[string]struct {
		reason             string
		granted            map[string]ledger.Amount
		existing, reserved int
		want               quotav1alpha1.AllowanceBucketStatus
	}{
		"unused": {"allowances of one type add up, within a grant and over all", both, 0, 0,
			quotav1alpha1.AllowanceBucketStatus{Limit: 4, Available: 4, GrantCount: 2, ContributingGrantRefs: refs}},
		"in use": {"what is reserved is taken, and counts as a claim once it exists", both, 2, 1,
			quotav1alpha1.AllowanceBucketStatus{Limit: 4, Allocated: 3, Available: 1, ClaimCount: 2, GrantCount: 2, ContributingGrantRefs: refs}},
		"shrunk": {"nothing is less than nothing", nil, 2, 0,
			quotav1alpha1.AllowanceBucketStatus{Allocated: 2, ClaimCount: 2}},
		"forgotten": {"the ledger knows nothing of it", nil, 0, 0, quotav1alpha1.AllowanceBucketStatus{}},
	}

	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := viewOf(ledgerOf(t, tt.granted, tt.existing, tt.reserved), nil, nil)
			got := statusOf(r.quotas["projects"].account, 0, contributionsTo("projects", r.grants))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

// What a request without an effect holds is not available, and not allocated.
func TestHeldIsApart(t *testing.T) {
	l := ledgerOf(t, map[string]ledger.Amount{"base": 9}, 2, 3)
	var overdue []ledgerstore.InFlight
	for r := range l.Reservations() {
		overdue = append(overdue, ledgerstore.InFlight{Reservation: r})
	}
	ended := overdue[0].Reservation
	ended.Sequence++
	overdue[0].Reservation = ended

	q := viewOf(l, overdue, nil).quotas["projects"]

	got := statusOf(q.account, q.held, nil)
	if want := (quotav1alpha1.AllowanceBucketStatus{Limit: 10, Allocated: 3, Held: 2, Available: 5, ClaimCount: 2}); !cmp.Equal(want, got) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func at(location string) ledger.Dimensions {
	d, err := ledger.NewDimensions(map[string]string{"location": location})
	if err != nil {
		panic(err)
	}
	return d
}

// locations is a ledger with 10 cpus for every location, 50 only for DLS, and 2 without a location. DFW uses 4, DLS 52,
// and 1 is without location.
func locations(t *testing.T) *ledger.Ledger {
	t.Helper()
	selector := func(requirement ledger.Requirement) ledger.Selector {
		s, err := ledger.NewSelector(requirement)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var demands []ledger.Demand
	for d, amount := range map[ledger.Dimensions]ledger.Amount{at("DFW"): 4, at("DLS"): 52, {}: 1} {
		demands = append(demands, ledger.Demand{ResourceType: "cpu", Dimensions: d, Amount: amount, Objects: 1})
	}

	l, err := ledger.Restore(ledger.Snapshot{Observations: []ledger.Observation{{Kind: "machines", Demands: demands}}, Grants: []ledger.Grant{
		{UID: "1", Name: "base", Namespace: "web", Generation: 2, Allowances: []ledger.Allowance{
			{ResourceType: "cpu", Amount: 10, Selector: selector(ledger.Requirement{Key: "location", Operator: ledger.Exists})},
			{ResourceType: "cpu", Amount: 30, Selector: selector(ledger.Requirement{Key: "location", Operator: ledger.In, Values: []string{"DLS"}})},
		}},
		{UID: "2", Name: "more", Namespace: "web", Generation: 1, Allowances: []ledger.Allowance{
			{ResourceType: "cpu", Amount: 20, Selector: selector(ledger.Requirement{Key: "location", Operator: ledger.In, Values: []string{"DLS"}})},
			{ResourceType: "cpu", Amount: 2, Selector: selector(ledger.Requirement{Key: "location", Operator: ledger.DoesNotExist})},
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestSharesOfDimensions(t *testing.T) {
	l := locations(t)
	r := viewOf(l, nil, map[string]indexEntry{"cpu": {sets: []ledger.Dimensions{at("DLS"), at("LHR"), {}}}})
	contributions := contributionsTo("cpu", r.grants)
	got := map[string]quotav1alpha1.AllowanceBucketStatus{}
	for _, share := range r.quotas["cpu"].shares {
		got[share.Dimensions.String()] = statusOfShare(&share, contributions)
	}
	base := quotav1alpha1.ContributingGrantRef{Name: "base", Amount: 10, LastObservedGeneration: 2}
	want := map[string]quotav1alpha1.AllowanceBucketStatus{
		// DLS takes 2 of the 10 for every location.
		"location=DFW": {Limit: 10, Allocated: 4, Available: 4, ClaimCount: 1, GrantCount: 1, ContributingGrantRefs: []quotav1alpha1.ContributingGrantRef{base}},
		"location=DLS": {Limit: 60, Allocated: 52, Available: 4, ClaimCount: 1, GrantCount: 2, ContributingGrantRefs: []quotav1alpha1.ContributingGrantRef{
			{Name: "base", Amount: 40, LastObservedGeneration: 2}, {Name: "more", Amount: 20, LastObservedGeneration: 1}}},
		// An earlier publication had it.
		"location=LHR": {Limit: 10, Available: 4, GrantCount: 1, ContributingGrantRefs: []quotav1alpha1.ContributingGrantRef{base}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("each dimension set in use, and each shown before, has what its allowances give (-want +got):\n%s", diff)
	}
}

func TestExcessOfShares(t *testing.T) {
	inUse := func(n int) share {
		return share{Balance: ledger.Balance{Dimensions: at(strconv.Itoa(n)), Reserved: 1}}
	}
	var q quota
	for n := range ledger.BalancesMax {
		q.shares = append(q.shares, inUse(n))
	}
	if excess := q.excess(); excess != nil {
		t.Errorf("%d shares are in excess of those that the ledger can hold, want none", len(excess))
	}
	for n := range 3 {
		unused := share{Balance: ledger.Balance{Dimensions: at("unused-" + strconv.Itoa(n))}}
		q.shares = append([]share{unused}, q.shares...)
	}
	q.shares[5] = share{Balance: ledger.Balance{Dimensions: at("unused")}}
	if got := len(q.excess()); got != 3 || len(q.shares) != ledger.BalancesMax {
		t.Errorf("%d shares went and %d are left, want 3 and %d", got, len(q.shares), ledger.BalancesMax)
	}
	for _, s := range q.shares {
		if s.unused() != (s.Dimensions == at("unused")) {
			t.Fatalf("share %s is left, want all that are in use, and one that is not", s.Dimensions)
		}
	}
}

func TestEffectiveStatus(t *testing.T) {
	c := catalog.New()
	registration := &quotav1alpha1.ResourceRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: "cpus"},
		Spec:       quotav1alpha1.ResourceRegistrationSpec{ResourceType: "cpu", BaseUnit: "millicore", DisplayUnit: "core", UnitConversionFactor: 8},
	}
	registration.Status.Conditions = []metav1.Condition{{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue}}
	c.SetRegistration(registration)

	r := viewOf(locations(t), nil, nil)
	refs := []quotav1alpha1.AllowanceBucketRef{{Name: "a-bucket"}}
	want := quotav1alpha1.EffectiveResourceGrantStatus{
		TotalLimit: 62, TotalAllocated: 57, Available: 5, AllowanceBucketRefs: refs,
		Display: &quotav1alpha1.DisplayedQuota{TotalLimit: "7.75 cores", TotalAllocated: "7.125 cores", Available: "0.625 cores", Percent: "92%"},
		GrantRefs: []quotav1alpha1.EffectiveGrantRef{
			{Name: "base", Namespace: "web", Amount: 40, ObservedGeneration: 2}, {Name: "more", Namespace: "web", Amount: 22, ObservedGeneration: 1}},
	}
	got := effectiveStatus(r.quotas["cpu"].account, r.quotas["cpu"].held, contributionsTo("cpu", r.grants), refs, c.Registration("cpu"))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("everything adds up (-want +got):\n%s", diff)
	}
	got = effectiveStatus(r.quotas["cpu"].account, r.quotas["cpu"].held, contributionsTo("cpu", r.grants), refs, nil)
	want.Display = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("without a registration there is no unit to display amounts in (-want +got):\n%s", diff)
	}
}

func TestReferencesFit(t *testing.T) {
	long := map[string]string{}
	for n := range ledger.DimensionsMax {
		long[strconv.Itoa(n)+strings.Repeat("k", 300)] = strings.Repeat("v", 250)
	}
	refs := make([]quotav1alpha1.AllowanceBucketRef, ledger.BalancesMax+1)
	for i := range refs {
		refs[i] = quotav1alpha1.AllowanceBucketRef{Name: strings.Repeat("n", 100), Dimensions: map[string]string{"location": strconv.Itoa(i)}}
	}
	if got := len(limitRefs(refs)); got != len(refs) {
		t.Errorf("%d of %d references are left, want all: they are short", got, len(refs))
	}
	for i := range refs {
		refs[i].Dimensions = long
	}
	left := limitRefs(refs)
	encoded, err := json.Marshal(left)
	if err != nil || len(encoded) > 1<<20 || len(left) < 20 {
		t.Errorf("%d references are left, which take %d bytes, want as many as fit into a stored object: %v", len(left), len(encoded), err)
	}
}

func TestNewObjects(t *testing.T) {
	s := subject{consumer: acme, resourceType: "example.com/gpus", namespace: "organization-acme"}
	whole, located, effective := s.newBucket(ledger.Dimensions{}), s.newBucket(at("DFW")), s.newEffectiveGrant()
	if whole.Name == located.Name || whole.Name != effective.Name || whole.Spec.Dimensions != nil {
		t.Errorf("buckets %+v and %+v and effective grant %s, want a name for each bucket, that of the whole for the effective grant", whole, located, effective.Name)
	}
	want := map[string]string{
		quotav1alpha1.LabelConsumerKind: "Organization", quotav1alpha1.LabelConsumerName: "acme", quotav1alpha1.LabelResourceType: "example.com.gpus",
	}
	if diff := cmp.Diff(want, effective.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	s.consumer.Name, s.resourceType = "system:acme", strings.Repeat("r", 64)
	if diff := cmp.Diff(map[string]string{quotav1alpha1.LabelConsumerKind: "Organization"}, s.newEffectiveGrant().Labels); diff != "" {
		t.Errorf("what cannot be a label is none (-want +got):\n%s", diff)
	}
}

func TestNamespaceOf(t *testing.T) {
	c := &Controller{SystemNamespace: "bursar-system", Namespaces: map[schema.GroupKind]string{
		{Group: acme.APIGroup, Kind: acme.Kind}: "organization-{{name}}",
	}}
	namespaced := acme
	namespaced.Namespace = "tenants"
	otherGroup := acme
	otherGroup.APIGroup = "elsewhere.example.com"
	tests := map[string]struct {
		reason   string
		consumer quotav1alpha1.ConsumerRef
		want     string
	}{
		"own namespace": {"a consumer in a namespace has its buckets there", namespaced, "tenants"},
		"template":      {"the administrator says where consumers of a kind live", acme, "organization-acme"},
		"neither":       {"the group is part of the kind; all others are with Bursar", otherGroup, "bursar-system"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := c.namespaceOf(tt.consumer); got != tt.want {
				t.Errorf("got %q, want %q: %s", got, tt.want, tt.reason)
			}
		})
	}
}
