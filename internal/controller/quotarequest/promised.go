package quotarequest

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/quotarequest"
)

// promisedBook has the approved requests without an end, by consumer: their increases count for later requests of the
// consumer before their grants do. Only the leader's worker writes the status of requests, so the book lists them once
// and then follows the worker's own reads and writes. It is for one goroutine.
type promisedBook struct {
	isComplete bool
	byConsumer map[quotav1alpha1.ConsumerRef]map[types.NamespacedName]promise
	consumers  map[types.NamespacedName]quotav1alpha1.ConsumerRef
}

// promise is an approved request without an end.
type promise struct {
	grant     string
	increases []quotav1alpha1.ApprovedIncrease
	// isSettled is unset while the grant is about to count, or the outcome of a write is unknown.
	isSettled bool
}

// complete lists all requests at the first call.
func (b *promisedBook) complete(ctx context.Context, live client.Reader) error {
	if b.isComplete {
		return nil
	}
	var all quotav1alpha1.QuotaRequestList
	if err := live.List(ctx, &all); err != nil {
		return fmt.Errorf("list the QuotaRequests: %w", err)
	}
	for i := range all.Items {
		b.note(&all.Items[i])
	}
	b.isComplete = true
	return nil
}

// note records a request as the API server has it, or may have it after a write.
func (b *promisedBook) note(request *quotav1alpha1.QuotaRequest) {
	name, approved := client.ObjectKeyFromObject(request), request.Status.Approved
	b.forget(name)
	if approved == nil || quotarequest.IsFinal(request) {
		return
	}
	if b.byConsumer == nil {
		b.byConsumer = map[quotav1alpha1.ConsumerRef]map[types.NamespacedName]promise{}
		b.consumers = map[types.NamespacedName]quotav1alpha1.ConsumerRef{}
	}
	consumer := request.Spec.ConsumerRef
	if b.byConsumer[consumer] == nil {
		b.byConsumer[consumer] = map[types.NamespacedName]promise{}
	}
	b.byConsumer[consumer][name] = promise{approved.Grant, approved.Increases, approved.GrantWaits || request.DeletionTimestamp != nil}
	b.consumers[name] = consumer
}

// forget drops a deleted request.
func (b *promisedBook) forget(name types.NamespacedName) {
	consumer, ok := b.consumers[name]
	if !ok {
		return
	}
	delete(b.consumers, name)
	if delete(b.byConsumer[consumer], name); len(b.byConsumer[consumer]) == 0 {
		delete(b.byConsumer, consumer)
	}
}

// others returns the increases of the other approved requests for the consumer of a request by the names of their
// grants, if they wait. It is not settled while the grant of one is about to count.
func (b *promisedBook) others(request *quotav1alpha1.QuotaRequest) (promised promises, isSettled bool) {
	promised = promises{}
	for name, p := range b.byConsumer[request.Spec.ConsumerRef] {
		switch {
		case name == client.ObjectKeyFromObject(request):
		case !p.isSettled:
			return nil, false
		default:
			promised[p.grant] = p.increases
		}
	}
	return promised, true
}
