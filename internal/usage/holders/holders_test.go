package holders

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

var acme = quotav1alpha1.ConsumerRef{Kind: "Organization", Name: "acme"}

func refOf(namespace, name string) quotav1alpha1.UnversionedObjectReference {
	return quotav1alpha1.UnversionedObjectReference{Kind: "Pod", Namespace: namespace, Name: name}
}

func countedObject(namespace, name string, amount int64) quotav1alpha1.QuotaUsageObject {
	return quotav1alpha1.QuotaUsageObject{
		ConsumerRef: &acme, ResourceRef: refOf(namespace, name), Policies: []string{"pods"}, Amounts: []quotav1alpha1.UsedAmount{{ResourceType: "pods", Amount: amount}},
	}
}

// claimFor is a claim in the namespace team. A view has another amount than its object, as after a change.
func claimFor(object quotav1alpha1.UnversionedObjectReference, isView bool) quotav1alpha1.ResourceClaim {
	claim := quotav1alpha1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "claim-" + object.Name}}
	claim.Spec.ConsumerRef, claim.Spec.ResourceRef = acme, object
	claim.Spec.Requests = []quotav1alpha1.ResourceRequest{{ResourceType: "pods", Amount: 99}}
	if isView {
		claim.Labels = map[string]string{quotav1alpha1.LabelView: "true"}
	}
	return claim
}

func TestJoin(t *testing.T) {
	hidden := &quotav1alpha1.HiddenUsage{Objects: 1}
	record, view := claimFor(refOf("team", "a"), false), claimFor(refOf("team", "a"), true)
	stale, elsewhere := claimFor(refOf("team", "gone"), true), claimFor(refOf("secret", "b"), true)
	for name, tt := range map[string]struct {
		reason  string
		claims  []quotav1alpha1.ResourceClaim
		counted Counted
		want    []string
	}{
		"counted":      {"an object needs no claim", nil, Counted{Objects: []quotav1alpha1.QuotaUsageObject{countedObject("team", "a", 2)}}, []string{"a counts 2 -"}},
		"viewed":       {"its view only adds the claim", []quotav1alpha1.ResourceClaim{view}, Counted{Objects: []quotav1alpha1.QuotaUsageObject{countedObject("team", "a", 2)}}, []string{"a counts 2 claim-a"}},
		"both":         {"a claim of record is a charge of its own", []quotav1alpha1.ResourceClaim{record}, Counted{Objects: []quotav1alpha1.QuotaUsageObject{countedObject("team", "a", 2)}}, []string{"a counts 2 -", "a claims 99 claim-a"}},
		"two versions": {"policies know the kind in two versions", nil, Counted{Objects: []quotav1alpha1.QuotaUsageObject{countedObject("team", "a", 2), countedObject("team", "a", 3)}}, []string{"a counts 5 -"}},
		"stale":        {"what counts is the truth", []quotav1alpha1.ResourceClaim{stale}, Counted{}, nil},
		"stale hidden": {"its user would see the object", []quotav1alpha1.ResourceClaim{stale}, Counted{Hidden: hidden}, nil},
		"elsewhere":    {"its user may not see the object, but the view", []quotav1alpha1.ResourceClaim{elsewhere}, Counted{Hidden: hidden}, []string{"b claims 99 claim-b"}},
		"blind":        {"nobody has counted what is hidden", []quotav1alpha1.ResourceClaim{elsewhere}, Counted{mayHide: true}, []string{"b claims 99 claim-b"}},
		"unanswered":   {"views are all there is", []quotav1alpha1.ResourceClaim{view, stale}, Counted{isIncomplete: true}, []string{"a claims 99 claim-a", "gone claims 99 claim-gone"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, h := range Join(tt.claims, &tt.counted) {
				amount, _ := h.AmountOf("pods")
				state, claim := "claims", "-"
				if h.Counts {
					state = "counts"
				}
				if h.Claim != nil {
					claim = h.Claim.Name
				}
				got = append(got, fmt.Sprintf("%s %s %d %s", h.Object.Name, state, amount, claim))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

func TestSort(t *testing.T) {
	all := Join([]quotav1alpha1.ResourceClaim{claimFor(quotav1alpha1.UnversionedObjectReference{}, false)}, &Counted{Objects: []quotav1alpha1.QuotaUsageObject{
		countedObject("b", "x", 1), countedObject("a", "y", 1), countedObject("a", "x", 1), countedObject("z", "z", 7),
	}})
	Sort(all, "pods")
	var got []string
	for i := range all {
		got = append(got, all[i].Subject().Namespace+"/"+all[i].Subject().Name)
	}
	if diff := cmp.Diff([]string{"team/claim-", "z/z", "a/x", "a/y", "b/x"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// asker answers each question by a function of the spec.
func asker(t *testing.T, answer func(*quotav1alpha1.QuotaUsageSpec) (*quotav1alpha1.QuotaUsageStatus, error)) *Asker {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := quotav1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	create := func(_ context.Context, _ client.WithWatch, object client.Object, options ...client.CreateOption) (err error) {
		usage := object.(*quotav1alpha1.QuotaUsage)
		if usage.Namespace != "team" || len((&client.CreateOptions{}).ApplyOptions(options).DryRun) == 0 {
			t.Errorf("a usage is created in namespace %q with %v", usage.Namespace, options)
		}
		usage.Status, err = answer(&usage.Spec)
		return err
	}
	return &Asker{API: fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{Create: create}).Build(), Namespace: "team"}
}

var (
	usages = schema.GroupResource{Group: quotav1alpha1.GroupName, Resource: "quotausages"}
	denied = apierrors.NewForbidden(usages, "u", errors.New(`admission webhook "quotausage.quota.miloapis.com" denied the request: you may not see the objects`))
)

// Whoever cannot be asked, a sentence says so, and what is known stays.
func TestAskSaysWhyNobodyAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		reason string
		err    error
		want   string
	}{
		"older":     {"the CRD is missing", &apimeta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "QuotaUsage"}}, "because its Bursar is older, so only claims are listed"},
		"older API": {"the mapping is cached", apierrors.NewNotFound(usages, ""), "because its Bursar is older, so only claims are listed"},
		"away":      {"no webhook has answered", nil, "Bursar does not answer, so only claims are listed"},
		"no role":   {"RBAC", apierrors.NewForbidden(usages, "u", errors.New("no role")), "you may not create QuotaUsages in namespace team"},
		"denied":    {"Bursar's own words", denied, "you may not see the objects"},
		"namespace": {"the namespace is missing", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "team"), `namespaces "team" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			counted, err := asker(t, func(*quotav1alpha1.QuotaUsageSpec) (*quotav1alpha1.QuotaUsageStatus, error) { return nil, tt.err }).Ask(t.Context(), Question{Max: 10})
			if err != nil {
				t.Fatal(err)
			}
			if notes := counted.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "Objects that count without a claim are missing here: ") || !strings.Contains(notes[0], tt.want) || !counted.NeedsViews() {
				t.Errorf("%s: the notes are %q, want %q", tt.reason, notes, tt.want)
			}
		})
	}
	_, err := asker(t, func(*quotav1alpha1.QuotaUsageSpec) (*quotav1alpha1.QuotaUsageStatus, error) {
		return nil, apierrors.NewUnauthorized("the session has ended")
	}).Ask(t.Context(), Question{Max: 10})
	if !apierrors.IsUnauthorized(err) {
		t.Errorf("got %v, want that the user is not logged in", err)
	}
}

// An answer has at most as many objects as asked for, from as many pages as it takes.
func TestAskReadsPages(t *testing.T) {
	const all = 2500
	var limits []int32
	a := asker(t, func(spec *quotav1alpha1.QuotaUsageSpec) (*quotav1alpha1.QuotaUsageStatus, error) {
		begin := 0
		if spec.Continue != "" {
			_, _ = fmt.Sscan(spec.Continue, &begin)
		}
		limits = append(limits, spec.Limit)
		status := &quotav1alpha1.QuotaUsageStatus{Hidden: &quotav1alpha1.HiddenUsage{Objects: 3}, Uncounted: []string{"Job.batch"}}
		for n := begin; n < min(all, begin+int(spec.Limit)); n++ {
			status.Objects = append(status.Objects, countedObject("team", fmt.Sprint(n), 1))
		}
		if end := begin + int(spec.Limit); end < all {
			status.Remaining, status.Continue = int64(all-end), fmt.Sprint(end)
		}
		return status, nil
	})
	counted, err := a.Ask(t.Context(), Question{Max: 1200})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int32{1000, 200}, limits); diff != "" || len(counted.Objects) != 1200 || counted.More != 1300 || counted.Hidden.Objects != 3 {
		t.Errorf("%d objects of pages %v, %d more, hidden %+v", len(counted.Objects), limits, counted.More, counted.Hidden)
	}
	if diff := cmp.Diff([]string{"Objects of Job.batch are missing here: Bursar has not listed them yet, or may not."}, counted.Notes()); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

// A user who may not see a consumer asks about the namespace.
func TestAskFallsBackOnANamespace(t *testing.T) {
	a := asker(t, func(spec *quotav1alpha1.QuotaUsageSpec) (*quotav1alpha1.QuotaUsageStatus, error) {
		if spec.Namespace == "" {
			return nil, denied
		}
		return &quotav1alpha1.QuotaUsageStatus{Objects: []quotav1alpha1.QuotaUsageObject{countedObject(spec.Namespace, "a", 1)}}, nil
	})
	counted, err := a.Ask(t.Context(), Question{Consumer: &acme, OrNamespace: "team", Max: 10})
	if err != nil || len(counted.Objects) != 1 || len(counted.Notes()) > 0 || !counted.NeedsViews() {
		t.Errorf("got %+v and %v, want the object of the namespace", counted, err)
	}

	again, err := a.Ask(t.Context(), Question{Namespace: "team", Max: 10})
	if err != nil {
		t.Fatal(err)
	}
	counted.Add(again)
	if len(counted.Objects) != 1 {
		t.Errorf("the answers together have %d objects, want the same one once", len(counted.Objects))
	}
}
