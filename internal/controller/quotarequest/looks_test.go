package quotarequest

import (
	"context"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/kube/events"
)

// counted is an API server with requests only. It counts their lists.
type counted struct {
	client.Client
	requests map[types.NamespacedName]*quotav1alpha1.QuotaRequest
	lists    int
}

func (c *counted) Get(_ context.Context, name client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	request, ok := c.requests[name]
	if !ok {
		return apierrors.NewNotFound(quotav1alpha1.GroupVersion.WithResource("quotarequests").GroupResource(), name.Name)
	}
	request.DeepCopyInto(object.(*quotav1alpha1.QuotaRequest))
	return nil
}

func (c *counted) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	all, ok := list.(*quotav1alpha1.QuotaRequestList)
	if !ok {
		return nil
	}
	c.lists++
	for _, request := range c.requests {
		all.Items = append(all.Items, *request.DeepCopy())
	}
	return nil
}

func (c *counted) Status() client.SubResourceWriter { return statuses{counted: c} }

// statuses writes the statuses of requests.
type statuses struct {
	client.SubResourceWriter
	counted *counted
}

func (s statuses) Update(_ context.Context, object client.Object, _ ...client.SubResourceUpdateOption) error {
	s.counted.requests[client.ObjectKeyFromObject(object)] = object.(*quotav1alpha1.QuotaRequest).DeepCopy()
	return nil
}

// quiet is a clock and a recorder of events.
type quiet struct{}

func (quiet) Now() time.Time { return time.Unix(1, 0) }

func (quiet) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}

// manyRequests returns a reconciler of many requests of one consumer.
func manyRequests(many int) (*Reconciler, *counted) {
	server := &counted{requests: map[types.NamespacedName]*quotav1alpha1.QuotaRequest{}}
	for i := range many {
		request := &quotav1alpha1.QuotaRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i))}}
		request.Spec.Requests = []quotav1alpha1.RequestedQuota{{ResourceType: "pods", Limit: new(int64(5))}}
		server.requests[client.ObjectKeyFromObject(request)] = request
	}
	return &Reconciler{
		Client: server, Live: server, Ledgers: ledgers{}, Totals: ledgers{}, Catalog: catalog.New(), Clock: quiet{}, Events: events.NewRecorder(quiet{}), Metrics: NewMetrics(),
	}, server
}

// The first look at a request lists all of them, and no later one does: many requests of a consumer cost in proportion
// to their number.
func TestLooksListRequestsOnce(t *testing.T) {
	const many = 500
	r, server := manyRequests(many)

	for i := range many {
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "home", Name: fmt.Sprint(i)}}); err != nil {
			t.Fatal(err)
		}
	}

	if server.lists != 1 {
		t.Errorf("%d looks list all requests %d times, want once", many, server.lists)
	}
	for name, request := range server.requests {
		if request.Status.ApprovalsNeeded != 1 {
			t.Errorf("request %s has no rule: %+v", name, request.Status)
		}
	}
}

// BenchmarkLook measures a look at a request beside 500 of the same consumer, without the time of an API server.
func BenchmarkLook(b *testing.B) {
	r, _ := manyRequests(500)
	for b.Loop() {
		if _, err := r.Reconcile(b.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "home", Name: "7"}}); err != nil {
			b.Fatal(err)
		}
	}
}
