package caution_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/caution"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/ledger"
)

const cpu = "example.com/cpu"

var version = schema.GroupVersion{Group: "example.com", Version: "v1"}

type cores struct{}

func (cores) Registration(string) *catalog.Registration {
	return &catalog.Registration{DisplayUnit: "core", Factor: 1000}
}

// world has the cluster-scoped kind Project and the kind Volume. Project web exists and uses 3 of 4 cores.
func world(t *testing.T) *caution.Adviser {
	mapper := apimeta.NewDefaultRESTMapper([]schema.GroupVersion{version})
	mapper.Add(version.WithKind("Project"), apimeta.RESTScopeRoot)
	mapper.Add(version.WithKind("Volume"), apimeta.RESTScopeNamespace)
	return &caution.Adviser{
		Mapper:        mapper,
		Permission:    permission{},
		Users:         users{},
		Objects:       objects{},
		Ledgers:       ledgers{t},
		Registrations: cores{},
		Clock:         clock{},
	}
}

// clock shows the first second of 2030.
type clock struct{}

func (clock) Now() time.Time { return time.Date(2030, 1, 1, 0, 0, 1, 0, time.UTC) }

// permission lets Bursar read everything, and look up everything without a denial.
type permission struct {
	denial string
	err    error
}

func (permission) Follow(context.Context, schema.GroupVersionResource) (string, error) {
	return "", nil
}
func (p permission) Get(context.Context, schema.GroupVersionResource) (string, error) {
	return p.denial, p.err
}

// users may read everything, but for tenant.
type users struct{}

func (users) MayRead(_ context.Context, user authenticationv1.UserInfo, _ schema.GroupVersionKind) (bool, error) {
	return user.Username != "tenant", nil
}

// objects has web, and an error for unknown.
type objects struct{}

func (objects) Exists(_ context.Context, _ schema.GroupVersionResource, name types.NamespacedName, _ types.UID) (bool, error) {
	if name.Name == "unknown" {
		return false, errors.New("connection refused")
	}
	return name.Name == "web", nil
}

// ledgers has one ledger, with 3 of 4 cores in use.
type ledgers struct{ *testing.T }

func (l ledgers) View(_ context.Context, _ quotav1alpha1.ConsumerRef, f func(*ledger.Ledger)) error {
	current := ledger.New()
	if _, err := current.SetGrant(ledger.Grant{UID: "g", Allowances: []ledger.Allowance{{ResourceType: cpu, Amount: 4000}}}); err != nil {
		l.Error(err)
	}
	current.Reserve(ledger.Reservation{Key: "claim", Charges: []ledger.Charge{{ResourceType: cpu, Amount: 3000}}})
	f(current)
	return nil
}

func grantOf(kind, namespace, name string, amount int64) *quotav1alpha1.ResourceGrant {
	return &quotav1alpha1.ResourceGrant{
		Spec: quotav1alpha1.ResourceGrantSpec{
			ConsumerRef: quotav1alpha1.ConsumerRef{APIGroup: version.Group, Kind: kind, Namespace: namespace, Name: name},
			Allowances:  []quotav1alpha1.Allowance{{ResourceType: cpu, Buckets: []quotav1alpha1.Bucket{{Amount: amount}}}},
		},
		Status: quotav1alpha1.ResourceGrantStatus{Conditions: []metav1.Condition{{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue}}},
	}
}

func withLabels(grant *quotav1alpha1.ResourceGrant, labels map[string]string) *quotav1alpha1.ResourceGrant {
	grant.Labels = labels
	return grant
}

func TestGrant(t *testing.T) {
	ofPolicy := grantOf("Project", "", "web", 4000)
	ofPolicy.Labels = map[string]string{quotav1alpha1.LabelAutoCreated: "true", quotav1alpha1.LabelPolicy: "tiers"}
	cases := map[string]struct {
		reason, user string
		old, new     *quotav1alpha1.ResourceGrant
		want         []string
	}{
		"InOrder":      {reason: "there is nothing to say", new: grantOf("Project", "", "web", 1)},
		"Missing":      {reason: "a slip is found at once", new: grantOf("Project", "", "wbe", 1), want: []string{"Project wbe does not exist: check the name; the grant counts anyway"}},
		"MayNotKnow":   {reason: "warnings disclose nothing", user: "tenant", new: grantOf("Project", "", "wbe", 1)},
		"Unknown":      {reason: "an outage is no answer", new: grantOf("Project", "", "unknown", 1)},
		"NotServed":    {reason: "the registration says so", new: grantOf("Team", "", "web", 1)},
		"Unnamespaced": {reason: "it is a consumer that nobody can be", new: grantOf("Volume", "", "data", 1), want: []string{"consumerRef.namespace is not set, but kind Volume is namespaced: no object of that kind is this consumer; set the namespace of the object"}},
		"Namespaced": {reason: "it is another consumer", new: grantOf("Project", "acme", "web", 1),
			want: []string{"consumerRef.namespace is set, but kind Project is cluster-scoped: Project web with a namespace is a different consumer than without, and has quota of its own; leave the namespace out unless all references have it"}},
		"BelowUse": {reason: "nothing is taken back", old: grantOf("Project", "", "web", 4000), new: grantOf("Project", "", "web", 1000),
			want: []string{"the limit of Project web for example.com/cpu becomes 1 core, below the 3 cores in use: Bursar takes nothing back, and grants nothing new until usage is below the limit"}},
		"Deleted": {reason: "who uses what it gave goes on, and gets nothing more", old: grantOf("Project", "", "web", 4000),
			want: []string{"the limit of Project web for example.com/cpu becomes 0 cores, below the 3 cores in use: Bursar takes nothing back, and grants nothing new until usage is below the limit"}},
		"DeletedUnused": {reason: "what is left is enough", old: grantOf("Project", "", "web", 500)},
		"DeletedOfPolicy": {reason: "it comes back", old: withLabels(grantOf("Project", "", "web", 500), ofPolicy.Labels),
			want: []string{"GrantCreationPolicy tiers makes this grant from its template, and will create it again; change the policy instead"}},
		"Moved": {reason: "the consumer that had it loses it", old: grantOf("Project", "", "web", 4000), new: grantOf("Project", "", "wbe", 4000),
			want: []string{"Project wbe does not exist: check the name; the grant counts anyway",
				"the limit of Project web for example.com/cpu becomes 0 cores, below the 3 cores in use: Bursar takes nothing back, and grants nothing new until usage is below the limit"}},
		"AtUse":    {reason: "it still fits", old: grantOf("Project", "", "web", 4000), new: grantOf("Project", "", "web", 3000)},
		"Raised":   {reason: "more is no harm", old: grantOf("Project", "", "web", 4000), new: grantOf("Project", "", "web", 5000)},
		"Same":     {reason: "nothing changes", old: ofPolicy, new: ofPolicy},
		"OfPolicy": {reason: "the change does not last", old: ofPolicy, new: grantOf("Project", "", "web", 5000), want: []string{"GrantCreationPolicy tiers makes this grant from its template, and will undo the change; change the policy instead"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := world(t).Grant(t.Context(), authenticationv1.UserInfo{Username: c.user}, c.old, c.new)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestClaim(t *testing.T) {
	const forbidden = "Bursar may not get volumes.example.com; create a ClusterRole"
	for name, c := range map[string]struct {
		reason, kind string
		denial       string
		err          error
		want         []string
	}{
		"InOrder":   {reason: "there is nothing to say", kind: "Volume"},
		"Forbidden": {reason: "the charge goes back early", kind: "Volume", denial: forbidden, want: []string{"when somebody deletes this claim, Bursar returns its charge although Volume data may still exist: " + forbidden}},
		"Unknown":   {reason: "an outage is no answer", kind: "Volume", denial: forbidden, err: errors.New("connection refused")},
		"NotServed": {reason: "no object exists", kind: "Team", denial: forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			adviser := world(t)
			adviser.Permission = permission{c.denial, c.err}
			got := adviser.Claim(t.Context(), &quotav1alpha1.ResourceClaim{Spec: quotav1alpha1.ResourceClaimSpec{
				ConsumerRef: quotav1alpha1.ConsumerRef{APIGroup: version.Group, Kind: "Project", Name: "web"},
				ResourceRef: quotav1alpha1.UnversionedObjectReference{APIGroup: version.Group, Kind: c.kind, Name: "data"},
			}})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestTemplate(t *testing.T) {
	ref := quotav1alpha1.ConsumerRef{APIGroup: version.Group, Kind: "{{.trigger.kind}}", Name: "x"}
	if got := world(t).Consumer(ref); got != nil {
		t.Errorf("got %v of a kind that is known once it is rendered", got)
	}
	slip := quotav1alpha1.ConsumerRef{APIGroup: version.Group, Kind: "Project", Name: "{.trigger.metadata.namespace}"}
	want := []string{`consumerRef.name "{.trigger.metadata.namespace}" is not a template, and no object has such a name: write templates in double braces, such as {{.trigger.metadata.namespace}}`}
	if diff := cmp.Diff(want, world(t).Consumer(slip)); diff != "" {
		t.Errorf("single braces are a slip (-want +got):\n%s", diff)
	}
}

func TestRegistration(t *testing.T) {
	of := func(kinds ...string) *quotav1alpha1.ResourceRegistration {
		r := &quotav1alpha1.ResourceRegistration{}
		for _, kind := range kinds {
			r.Spec.ClaimingResources = append(r.Spec.ClaimingResources, quotav1alpha1.ClaimingResource{APIGroup: version.Group, Kind: kind})
		}
		return r
	}
	want := []string{"spec.claimingResources[1]: kind Voulme.example.com is not served by this API server so far; check apiGroup and kind"}
	if diff := cmp.Diff(want, world(t).Registration(nil, of("Volume", "Voulme"))); diff != "" {
		t.Errorf("a new kind is looked up (-want +got):\n%s", diff)
	}
	if got := world(t).Registration(of("Voulme"), of("Voulme", "Volume")); got != nil {
		t.Errorf("got %v of a kind that was accepted before", got)
	}
}
