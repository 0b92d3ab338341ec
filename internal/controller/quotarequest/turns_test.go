package quotarequest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// cached has a request under each name: its consumer is the part of the name before the dash.
type cached struct{ client.Reader }

func (cached) Get(_ context.Context, name client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	consumer, _, _ := strings.Cut(name.Name, "-")
	object.(*quotav1alpha1.QuotaRequest).Spec.ConsumerRef.Name = consumer
	return nil
}

// 500 requests of one consumer let another consumer's request come next, and a waiting one keeps its place.
func TestConsumersTakeTurns(t *testing.T) {
	queue := newQueue(cached{}, "", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	add := func(name string) { queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}) }
	for i := range 500 {
		add(fmt.Sprintf("many-%d", i))
	}
	add("few-0")
	add("few-1")
	add("many-0")

	var order []string
	for range 5 {
		next, _ := queue.Get()
		order = append(order, next.Name)
		queue.Done(next)
	}
	if got, want := strings.Join(order, " "), "many-0 few-0 many-1 few-1 many-2"; got != want {
		t.Errorf("the order is %s, want %s", got, want)
	}
	if got := queue.Len(); got != 497 {
		t.Errorf("%d requests wait, want 497", got)
	}
}

// The book has what the worker read and wrote last, and a deleted request is in it no more.
func TestPromisedBook(t *testing.T) {
	request := func(name string, approved *quotav1alpha1.ApprovedQuota) *quotav1alpha1.QuotaRequest {
		return &quotav1alpha1.QuotaRequest{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: quotav1alpha1.QuotaRequestStatus{Approved: approved}}
	}
	book, other := &promisedBook{}, request("other", nil)
	want := func(reason string, grants int, settled bool) {
		t.Helper()
		promised, isSettled := book.others(other)
		if len(promised) != grants || isSettled != settled {
			t.Errorf("%s: got %v, settled: %t", reason, promised, isSettled)
		}
	}
	want("nothing is approved", 0, true)

	waits := request("a", &quotav1alpha1.ApprovedQuota{Grant: "a"})
	book.note(waits)
	want("the grant is about to count", 0, false)
	if _, isSettled := book.others(waits); !isSettled {
		t.Error("a request waits for itself")
	}

	waits.Status.Approved.GrantWaits = true
	book.note(waits)
	want("the grant waits under a cap", 1, true)

	setApproved(waits, quotav1alpha1.ReasonApproved, "")
	book.note(waits)
	want("the grant counts", 0, true)

	book.note(request("b", &quotav1alpha1.ApprovedQuota{Grant: "b"}))
	book.forget(types.NamespacedName{Name: "b"})
	want("the request was deleted", 0, true)
	if len(book.byConsumer)+len(book.consumers) > 0 {
		t.Errorf("the book keeps %v", book)
	}
}
