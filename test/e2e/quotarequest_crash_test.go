package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/controller/quotarequest"
	"github.com/bursar/bursar/internal/kube/crdinstall"
	"github.com/bursar/bursar/internal/kube/events"
	"github.com/bursar/bursar/internal/ledger"
)

// crash ends a reconciler at a write: before it reaches the API server, or after.
type crash struct {
	atWrite int
	after   bool
	writes  int
}

var errCrashed = errors.New("crashed")

func (c *crash) write(do func() error) error {
	c.writes++
	switch {
	case c.writes != c.atWrite:
		return do()
	case !c.after:
		return errCrashed
	}
	_ = do() // nobody learns the result
	return errCrashed
}

// through returns a client with crashing writes.
func (c *crash) through(api client.WithWatch) client.Client {
	return interceptor.NewClient(api, interceptor.Funcs{
		Create: func(ctx context.Context, api client.WithWatch, object client.Object, options ...client.CreateOption) error {
			return c.write(func() error { return api.Create(ctx, object, options...) })
		},
		SubResourceUpdate: func(ctx context.Context, api client.Client, name string, object client.Object, options ...client.SubResourceUpdateOption) error {
			return c.write(func() error { return api.SubResource(name).Update(ctx, object, options...) })
		},
	})
}

// emptyLedgers have nothing.
type emptyLedgers struct{}

func (emptyLedgers) View(_ context.Context, _ quotav1alpha1.ConsumerRef, f func(*ledger.Ledger)) error {
	f(ledger.New())
	return nil
}

func (emptyLedgers) Total(string, ledger.Dimensions) ledger.Amount { return 0 }

func (emptyLedgers) Now() time.Time { return time.Now() }

func (emptyLedgers) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}

// A replica may crash at every write of an approval, before or after it reaches the API server. The next one goes on,
// and there is one grant.
func TestQuotaRequestSurvivesCrashes(t *testing.T) {
	t.Parallel()
	plane := barePlane(t).plane
	extensions, err := apiextensionsclient.NewForConfig(plane.Config())
	must(t, err)
	must(t, crdinstall.Install(t.Context(), extensions, extensions.Discovery(), logr.Discard()))
	api, err := client.NewWithWatch(plane.Config(), client.Options{Scheme: admin.Scheme()})
	must(t, err)
	reconciler := func(writer client.Client) *quotarequest.Reconciler {
		return &quotarequest.Reconciler{
			Client: writer, Live: api, Ledgers: emptyLedgers{}, Totals: emptyLedgers{}, Catalog: catalog.New(), Clock: emptyLedgers{}, Events: events.NewRecorder(emptyLedgers{}),
			Metrics: quotarequest.NewMetrics(),
		}
	}
	// The writes are the approval, the grant, and the end, once the grant counts.
	const writes, beforeItCounts = 3, 2
	for atWrite := 1; atWrite <= writes; atWrite++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("write %d, seen: %t", atWrite, after), func(t *testing.T) {
				ctx := t.Context()
				request := &quotav1alpha1.QuotaRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "crash-", Namespace: "default"}}
				request.Spec = quotav1alpha1.QuotaRequestSpec{
					ConsumerRef: quotav1alpha1.ConsumerRef{APIGroup: "example.com", Kind: "Tenant", Name: fmt.Sprintf("crash-%d-%t", atWrite, after)},
					Reason:      "a release", Requests: []quotav1alpha1.RequestedQuota{{ResourceType: "maps", Increase: new(int64(2))}},
					Requester: &quotav1alpha1.RequestUser{Username: "tom"},
				}
				must(t, api.Create(ctx, request))
				decision := &quotav1alpha1.QuotaDecision{ObjectMeta: metav1.ObjectMeta{GenerateName: "crash-", Namespace: "default"}}
				decision.Spec = quotav1alpha1.QuotaDecisionSpec{
					RequestRef: quotav1alpha1.DecidedRequestRef{Name: request.Name, UID: string(request.UID)}, Decision: quotav1alpha1.DecisionApprove,
					DecidedBy: &quotav1alpha1.RequestUser{Username: "ann"},
				}
				must(t, api.Create(ctx, decision))

				c := &crash{atWrite: atWrite, after: after}
				first := reconciler(c.through(api))
				name := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(request)}
				_, err := first.Reconcile(ctx, name)
				if atWrite > beforeItCounts {
					must(t, err)
					(&world{T: t, ctx: ctx}).countGrant(api, request)
					_, err = first.Reconcile(ctx, name)
				}
				if !errors.Is(err, errCrashed) {
					t.Fatalf("got %v instead of a crash", err)
				}

				second := reconciler(api)
				for range writes {
					_, err := second.Reconcile(ctx, name)
					must(t, err)
					(&world{T: t, ctx: ctx}).countGrant(api, request)
				}
				must(t, api.Get(ctx, name.NamespacedName, request))
				if state := request.Status.Conditions[0]; state.Reason != quotav1alpha1.ReasonApproved {
					t.Errorf("the request is %+v, want it approved", state)
				}
				var grants quotav1alpha1.ResourceGrantList
				must(t, api.List(ctx, &grants, client.InNamespace("default")))
				var found int
				for i := range grants.Items {
					if grants.Items[i].Spec.ConsumerRef == request.Spec.ConsumerRef {
						found++
					}
				}
				if found != 1 {
					t.Errorf("there are %d grants, want one", found)
				}
			})
		}
	}
}

// countGrant does the work of the controller of grants: it marks the grant of a request as counting, if there is one.
func (w *world) countGrant(api client.Client, request *quotav1alpha1.QuotaRequest) {
	w.Helper()
	grant := &quotav1alpha1.ResourceGrant{}
	err := api.Get(w.ctx, client.ObjectKey{Namespace: request.Namespace, Name: "request-" + string(request.UID)}, grant)
	if apierrors.IsNotFound(err) {
		return
	}
	must(w, err)
	grant.Status.Conditions = []metav1.Condition{{
		Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue, Reason: quotav1alpha1.ReasonGrantActive, Message: "it counts",
		ObservedGeneration: grant.Generation, LastTransitionTime: metav1.Now(),
	}}
	must(w, api.Status().Update(w.ctx, grant))
}
