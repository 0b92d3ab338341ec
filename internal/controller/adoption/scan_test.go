package adoption

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// pages answers lists of any kind.
type pages func(options metav1.ListOptions) (*unstructured.UnstructuredList, error)

type pagesOf struct {
	dynamic.Interface
	dynamic.NamespaceableResourceInterface
	list pages
}

func (p pagesOf) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return p
}

func (p pagesOf) List(_ context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	return p.list(options)
}

// page is a page with the objects of these names. Their UIDs are the same.
func page(next string, remaining int64, names ...string) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{Object: map[string]any{}}
	for _, name := range names {
		object := unstructured.Unstructured{Object: map[string]any{}}
		object.SetNamespace("ns")
		object.SetName(name)
		object.SetUID(types.UID(name))
		list.Items = append(list.Items, object)
	}
	list.SetContinue(next)
	if remaining > 0 {
		list.SetRemainingItemCount(&remaining)
	}
	return list
}

func onePage(names ...string) pages {
	return func(metav1.ListOptions) (*unstructured.UnstructuredList, error) { return page("", 0, names...), nil }
}

// served serves every kind.
type served struct{}

func (served) VersionedResourceFor(_ context.Context, kind schema.GroupVersionKind) (schema.GroupVersionResource, bool, error) {
	return kind.GroupVersion().WithResource("configmaps"), true, nil
}

// adopter adopts each object once, after the given number of failures.
type adopter struct {
	mu       sync.Mutex
	failures map[string][]error
	adopted  map[string]bool
	// calls counts the inspections of each object.
	calls map[string]int
}

func (c *adopter) Reconcile(_ context.Context, _ *catalog.Policy, object *unstructured.Unstructured) (engine.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := object.GetName()
	c.calls[name]++
	if failures := c.failures[name]; len(failures) > 0 {
		c.failures[name] = failures[1:]
		return engine.Unchanged, failures[0]
	}
	if c.adopted[name] {
		return engine.Unchanged, nil
	}
	c.adopted[name] = true
	return engine.Adopted, nil
}

// reviews are the reviews of this replica, and those of the others when it queries them.
type reviews struct {
	here      map[types.UID]bool
	questions int
	elsewhere bool
}

func (r *reviews) Has(uid types.UID, _ *catalog.Policy) bool { return r.here[uid] }

func (r *reviews) ByPeers(_ context.Context, objects []types.UID, _ *catalog.Policy) []types.UID {
	r.questions++
	if !r.elsewhere {
		return nil
	}
	return objects
}

// bench is a controller with a policy and its objects.
type bench struct {
	*testing.T
	*Controller
	adopter  *adopter
	reviewed reviews
	// rejection is the error of status writes, or nil.
	rejection error
	// writes counts the writes of the status.
	writes int
	// changeBeforeWrite, if set, is somebody else's change of the policy right before the first write.
	changeBeforeWrite func(*quotav1alpha1.ClaimCreationPolicy)
}

func newBench(t *testing.T, list pages, before *quotav1alpha1.AdoptionStatus) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := quotav1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	policy := &quotav1alpha1.ClaimCreationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p", Generation: 3},
		Spec: quotav1alpha1.ClaimCreationPolicySpec{
			Trigger: quotav1alpha1.ClaimTrigger{Resource: quotav1alpha1.ClaimTriggerResource{APIVersion: "v1", Kind: "ConfigMap"}},
			Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{
				// Its claims are of record, because they name the user.
				Metadata: quotav1alpha1.ObjectTemplateMetadata{Annotations: map[string]string{"example.com/user": "{{.user.name}}"}},
				Spec: quotav1alpha1.ResourceClaimTemplateSpec{
					ConsumerRef: quotav1alpha1.ConsumerRef{Kind: "Org", Name: "acme"},
					Requests:    []quotav1alpha1.ResourceRequestTemplate{{ResourceType: "t", Amount: 1}},
				},
			}},
		},
		Status: quotav1alpha1.ClaimCreationPolicyStatus{Adoption: before},
	}
	b := &bench{T: t, adopter: &adopter{failures: map[string][]error{}, adopted: map[string]bool{}, calls: map[string]int{}}}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(policy).WithStatusSubresource(policy).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, subResource string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if b.rejection != nil {
				return b.rejection
			}
			if change := b.changeBeforeWrite; change != nil {
				b.changeBeforeWrite = nil
				policy := b.stored()
				change(policy)
				if err := c.Status().Update(ctx, policy); err != nil {
					return err
				}
			}
			b.writes++
			return c.SubResource(subResource).Patch(ctx, object, patch, options...)
		},
	}).Build()
	known := catalog.New()
	registration := &quotav1alpha1.ResourceRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: "t"}, Spec: quotav1alpha1.ResourceRegistrationSpec{
			ResourceType: "t", ConsumerTypeRef: quotav1alpha1.ConsumerTypeRef{Kind: "Org"},
			ClaimingResources: []quotav1alpha1.ClaimingResource{{Kind: "ConfigMap"}},
		},
	}
	apimeta.SetStatusCondition(&registration.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue})
	known.SetRegistration(registration)
	if errs := known.SetPolicy(policy); len(errs) > 0 {
		t.Fatal(errs)
	}
	b.Controller = &Controller{
		Client: api, Catalog: known, Kinds: served{}, Live: pagesOf{list: list}, Objects: objectcache.New(nil, nil), Claims: claimcache.New(),
		Store: ledgerstore.New(t.Context(), storagetest.New().Connect(nil)), Engine: b.adopter, Reviews: &b.reviewed, Log: logr.Discard(),
		Leases: kubernetesfake.NewClientset().CoordinationV1().Leases("bursar-system"),
	}
	return b
}

// stored returns the stored policy.
func (b *bench) stored() *quotav1alpha1.ClaimCreationPolicy {
	b.Helper()
	policy := &quotav1alpha1.ClaimCreationPolicy{}
	if err := b.Client.Get(b.Context(), client.ObjectKey{Name: "p"}, policy); err != nil {
		b.Fatal(err)
	}
	return policy
}

// scan scans once, as after a start of the process.
func (b *bench) scan() (complete bool, err error) {
	b.Helper()
	s := &scan{Controller: b.Controller, policy: b.Catalog.Policy("p"), progress: progressOf(b.stored(), false, time.Now)}
	return s.run(b.Context())
}

// want compares the stored progress, but for its times.
func (b *bench) want(reason string, want quotav1alpha1.AdoptionStatus) {
	b.Helper()
	want.ObservedGeneration = 3
	got := b.stored().Status.Adoption
	want.Progress = fmt.Sprintf("%d/%d", max(want.Processed-want.Failed, 0), want.Total)
	if diff := cmp.Diff(&want, got, cmpopts.IgnoreTypes(&metav1.Time{})); diff != "" {
		b.Errorf("%s (-want +got):\n%s", reason, diff)
	}
	if got != nil && (got.CompletionTime != nil) != (want.State == quotav1alpha1.AdoptionComplete) {
		b.Errorf("%s: the completion time is %v in state %s", reason, got.CompletionTime, got.State)
	}
}

// transient is a failure worth another try.
var transient = &evaluator.TransientError{Err: errors.New("the API server is busy")}

func times(n int, err error) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// The scan tries an object with a transient error again, at once and later, and counts it once in the end. An object
// unfit for the policy counts as failed, without a retry.
func TestFailuresWhileAdopting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, onePage("good", "slow", "slower", "bad"), nil)
		b.adopter.failures = map[string][]error{
			"slow":   times(3, transient),
			"slower": append(times(4, transient), fmt.Errorf("look: %w", transient), context.DeadlineExceeded),
			"bad":    times(9, errors.New("spec.size: no such key")),
		}
		if complete, err := b.scan(); complete || err != nil {
			t.Fatalf("the scan is complete: %v, %v; one object could not be looked at", complete, err)
		}
		if calls := b.adopter.calls; calls["good"] != 1 || calls["slow"] != 4 || calls["slower"] != 5 || calls["bad"] != 1 {
			t.Errorf("objects were looked at so often: %v", calls)
		}
		if got := b.stored().Status.Adoption; got != nil && got.State == quotav1alpha1.AdoptionComplete {
			t.Errorf("adoption is said to be complete: %+v", got)
		}
		if complete, err := b.scan(); !complete || err != nil {
			t.Fatalf("the scan is complete: %v, %v; want it to be", complete, err)
		}
		got := b.stored().Status.Adoption
		if got.Processed != 4 || got.Failed != 1 || got.Total != 4 || got.Message != "ConfigMap ns/bad: spec.size: no such key" || got.State != quotav1alpha1.AdoptionComplete {
			t.Errorf("adoption is %+v, want 4 processed and 1 failed with its reason", got)
		}
	})
}

// A list with an expired token begins again, and so does its count. Adopted objects stay adopted.
func TestExpiredListBeginsAgain(t *testing.T) {
	var asked []string
	expired := false
	b := newBench(t, func(options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
		asked = append(asked, options.Continue)
		switch {
		case options.Continue == "":
			return page("second", 2, "a", "bad"), nil
		case !expired:
			expired = true
			return nil, apierrors.NewResourceExpired("too old")
		default:
			return page("", 0, "c", "d"), nil
		}
	}, nil)
	b.adopter.failures["bad"] = times(9, errors.New("no"))
	if complete, err := b.scan(); !complete || err != nil {
		t.Fatalf("the scan is complete: %v, %v", complete, err)
	}
	if diff := cmp.Diff([]string{"", "second", "", "second"}, asked); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
	b.want("each object counts once", quotav1alpha1.AdoptionStatus{
		State: quotav1alpha1.AdoptionComplete, Total: 4, Processed: 4, Adopted: 3, Failed: 1, Message: "ConfigMap ns/bad: no",
	})
}

// Other failures of a list end the scan, for a retry of the whole.
func TestListThatFails(t *testing.T) {
	failure := apierrors.NewServiceUnavailable("not now")
	b := newBench(t, func(metav1.ListOptions) (*unstructured.UnstructuredList, error) { return nil, failure }, nil)
	if complete, err := b.scan(); complete || !errors.Is(err, failure) {
		t.Errorf("got %v, %v; want %v", complete, err, failure)
	}
}

// An object reviewed at its creation gets no claim later.
func TestReviewedObjectsAreNotAdopted(t *testing.T) {
	b := newBench(t, onePage("reviewed", "old"), nil)
	b.reviewed.here = map[types.UID]bool{"reviewed": true}
	if complete, err := b.scan(); !complete || err != nil {
		t.Fatalf("the scan is complete: %v, %v", complete, err)
	}
	b.want("one is not looked at", quotav1alpha1.AdoptionStatus{State: quotav1alpha1.AdoptionComplete, Total: 2, Processed: 2, Adopted: 1})
}

// An expired list may continue in a later state.
func TestExpiredListContinues(t *testing.T) {
	var asked []string
	b := newBench(t, func(options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
		asked = append(asked, options.Continue)
		switch options.Continue {
		case "":
			return page("second", 1, "a"), nil
		case "second":
			expired := apierrors.NewResourceExpired("too old")
			expired.ErrStatus.Continue = "second of later"
			return nil, expired
		default:
			return page("", 0, "b"), nil
		}
	}, nil)
	if complete, err := b.scan(); !complete || err != nil {
		t.Fatalf("the scan is complete: %v, %v", complete, err)
	}
	if diff := cmp.Diff([]string{"", "second", "second of later"}, asked); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
	b.want("each object counts once", quotav1alpha1.AdoptionStatus{State: quotav1alpha1.AdoptionComplete, Total: 2, Processed: 2, Adopted: 2})
}

// A scan ends when its policy changes, and is not complete: the policy may come back as it was.
func TestPolicyChangesMeanwhile(t *testing.T) {
	var b *bench
	b = newBench(t, func(options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
		if options.Continue == "" {
			b.Catalog.RemovePolicy("p")
			return page("second", 1, "a"), nil
		}
		t.Error("the scan goes on")
		return page("", 0, "b"), nil
	}, nil)
	if complete, err := b.scan(); complete || err != nil {
		t.Errorf("the scan is complete: %v, %v", complete, err)
	}
	if got := b.stored().Status.Adoption; got != nil {
		t.Errorf("adoption is %+v, want nothing to be said", got)
	}
}

// A new process inspects all objects once more, and reports only differences.
func TestAdoptionAfterARestart(t *testing.T) {
	began := &metav1.Time{Time: time.Unix(1000, 0)}
	status := func(state quotav1alpha1.AdoptionState, generation, total, processed, adopted int64) *quotav1alpha1.AdoptionStatus {
		s := &quotav1alpha1.AdoptionStatus{
			State: state, ObservedGeneration: generation, StartTime: began, Total: total, Processed: processed, Adopted: adopted,
			Progress: fmt.Sprintf("%d/%d", processed, total),
		}
		if state == quotav1alpha1.AdoptionComplete {
			s.CompletionTime = began
		}
		return s
	}
	tests := map[string]struct {
		reason  string
		before  *quotav1alpha1.AdoptionStatus
		adopted []string
		want    *quotav1alpha1.AdoptionStatus
		writes  int
	}{
		"all done before": {"nothing is news", status(quotav1alpha1.AdoptionComplete, 3, 2, 2, 2), []string{"a", "b"},
			status(quotav1alpha1.AdoptionComplete, 3, 2, 2, 2), 0},
		"one came meanwhile": {"it counts in addition", status(quotav1alpha1.AdoptionComplete, 3, 1, 1, 1), []string{"a"},
			status(quotav1alpha1.AdoptionComplete, 3, 2, 2, 2), 1},
		"interrupted": {"it goes on, and counts what was adopted before", status(quotav1alpha1.AdoptionRunning, 3, 2, 1, 1), []string{"a"},
			status(quotav1alpha1.AdoptionComplete, 3, 2, 2, 2), 1},
		"of an earlier generation": {"it begins again", status(quotav1alpha1.AdoptionComplete, 2, 9, 9, 9), []string{"a", "b"},
			status(quotav1alpha1.AdoptionComplete, 3, 2, 2, 0), 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, onePage("a", "b"), tt.before)
			for _, each := range tt.adopted {
				b.adopter.adopted[each] = true
			}
			if complete, err := b.scan(); !complete || err != nil {
				t.Fatalf("the scan is complete: %v, %v", complete, err)
			}
			b.want(tt.reason, *tt.want)
			if b.writes != tt.writes {
				t.Errorf("%s: the status was written %d times, want %d", tt.reason, b.writes, tt.writes)
			}
			if got := b.stored().Status.Adoption.StartTime; tt.before.ObservedGeneration == 3 && !got.Equal(began) {
				t.Errorf("%s: adoption began at %s, want %s", tt.reason, got, began)
			}
		})
	}
}
