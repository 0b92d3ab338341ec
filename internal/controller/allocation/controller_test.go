package allocation

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/allocation/allocationstore"
	"github.com/bursar/bursar/internal/catalog"
)

// bad is an allocation with an invalid selector.
func bad() *quotav1alpha1.ResourceQuotaAllocation {
	return &quotav1alpha1.ResourceQuotaAllocation{
		ObjectMeta: metav1.ObjectMeta{Name: "acme", Generation: 3},
		Spec:       quotav1alpha1.ResourceQuotaAllocationSpec{Selector: metav1.LabelSelector{MatchLabels: map[string]string{"team": "no value"}}},
	}
}

// started returns a controller with these objects. It calls updated before each write of a status.
func started(t *testing.T, updated func() error, objects ...client.Object) *Controller {
	t.Helper()
	known := runtime.NewScheme()
	if err := quotav1alpha1.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	c := &Controller{Catalog: catalog.New(), Client: fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).WithStatusSubresource(objects...).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourceUpdate: func(ctx context.Context, under client.Client, of string, object client.Object, options ...client.SubResourceUpdateOption) error {
				if err := updated(); err != nil {
					return err
				}
				return under.SubResource(of).Update(ctx, object, options...)
			},
		}).Build()}
	c.Start()
	t.Cleanup(func() { c.queue.ShutDown(); c.projections.ShutDown() })
	return c
}

func TestIneffectiveIsReported(t *testing.T) {
	writes := 0
	c := started(t, func() error { writes++; return nil }, bad())
	for range 2 {
		if err := c.settle(t.Context(), "acme"); err != nil {
			t.Fatal(err)
		}
	}
	object := &quotav1alpha1.ResourceQuotaAllocation{}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Name: "acme"}, object); err != nil {
		t.Fatal(err)
	}
	_, problem := metav1.LabelSelectorAsSelector(&object.Spec.Selector)
	want := []metav1.Condition{{
		Type: "Ready", Status: metav1.ConditionFalse, Reason: "ValidationFailed", ObservedGeneration: 3,
		Message: fmt.Sprintf("spec.selector: %v; nothing is capped", problem),
	}}
	stalled := want[0]
	stalled.Type, stalled.Status = quotav1alpha1.ConditionStalled, metav1.ConditionTrue
	want = append(want, stalled)
	if diff := cmp.Diff(want, object.Status.Conditions, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if writes != 1 {
		t.Errorf("it is written %d times", writes)
	}
}

func TestNotUsable(t *testing.T) {
	usable := bad()
	usable.Spec.Selector = metav1.LabelSelector{}
	gone, lost := apierrors.NewNotFound(quotav1alpha1.Resource("resourcequotaallocations"), "acme"), errors.New("connection lost")
	for name, tt := range map[string]struct {
		reason  string
		object  *quotav1alpha1.ResourceQuotaAllocation
		updated error
		writes  int
		want    error
	}{
		"deleted":           {"there is nobody to tell", nil, nil, 0, nil},
		"usable by now":     {"the catalog is told of it soon", usable, nil, 0, nil},
		"deleted meanwhile": {"there is nobody to tell any more", bad(), gone, 1, nil},
		"changed meanwhile": {"what it has become is on its way", bad(), apierrors.NewConflict(quotav1alpha1.Resource("resourcequotaallocations"), "acme", lost), 1, nil},
		"not written":       {"it is to be tried again", bad(), lost, 1, lost},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			if tt.object != nil {
				objects = append(objects, tt.object)
			}
			writes := 0
			c := started(t, func() error { writes++; return tt.updated }, objects...)
			c.reportUsage(taking("acme", "5", metav1.ConditionFalse))
			if n := series(c); n != 2 {
				t.Fatalf("%d time series are shown of an allocation that caps one resource", n)
			}
			if err := c.settle(t.Context(), "acme"); !errors.Is(err, tt.want) {
				t.Errorf("%s: got %v, want %v", tt.reason, err, tt.want)
			}
			if writes != tt.writes {
				t.Errorf("%s: it is written %d times, want %d", tt.reason, writes, tt.writes)
			}
			if n := series(c); n != 0 || len(c.states) != 0 {
				t.Errorf("what caps nothing is still shown in %d time series, and %d are remembered", n, len(c.states))
			}
		})
	}
}

func TestReady(t *testing.T) {
	for name, tt := range map[string]struct {
		reason               string
		isEffective, isKnown bool
		want                 *metav1.Condition
	}{
		"not known":     {"what was said before stays", true, false, nil},
		"in effect":     {"every change is checked", true, true, &metav1.Condition{Status: metav1.ConditionTrue, Reason: "Enforced"}},
		"not in effect": {"some changes are not", false, true, &metav1.Condition{Status: metav1.ConditionFalse, Reason: "WebhooksPending"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Controller{Webhooks: webhooks{tt.isEffective, tt.isKnown}}
			ready := c.ready(&catalog.Allocation{Name: "acme", UID: "u", Generation: 2, Revision: 7})
			var want *allocationstore.Ready
			if tt.want != nil {
				want = &allocationstore.Ready{UID: "u", Generation: 2, Condition: *tt.want}
			}
			if diff := cmp.Diff(want, ready, cmpopts.IgnoreFields(metav1.Condition{}, "Message")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

// webhooks knows allocations entered with revision 7.
type webhooks struct{ isEffective, isKnown bool }

func (w webhooks) IsAllocationEffective(entered int64) bool { return w.isEffective && entered == 7 }
func (w webhooks) Synced() bool                             { return w.isKnown }
