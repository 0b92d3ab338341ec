package quotarequest

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/internal/quotarequest"
)

// Stored reads requests for their validation.
type Stored struct {
	// Cached reads from a cache, see [IndexOpen].
	Cached client.Reader
	// Live reads from the API server, not from a cache.
	Live client.Reader
}

// Request returns a request. The error is NotFound if there is none.
func (s Stored) Request(ctx context.Context, name types.NamespacedName) (*quotav1alpha1.QuotaRequest, error) {
	request := &quotav1alpha1.QuotaRequest{}
	return request, s.Live.Get(ctx, name, request)
}

// Decisions returns the decisions on a request, and on earlier ones of its name.
func (s Stored) Decisions(ctx context.Context, request *quotav1alpha1.QuotaRequest) ([]quotav1alpha1.QuotaDecision, error) {
	return decisionsOn(ctx, s.Live, request)
}

// decisionsOn reads the decisions on a request, and on earlier ones of its name, from the API server.
func decisionsOn(ctx context.Context, live client.Reader, request *quotav1alpha1.QuotaRequest) ([]quotav1alpha1.QuotaDecision, error) {
	var list quotav1alpha1.QuotaDecisionList
	if err := live.List(ctx, &list, client.InNamespace(request.Namespace), client.MatchingFields{"spec.requestRef.name": request.Name}); err != nil {
		return nil, fmt.Errorf("list the decisions on QuotaRequest %s/%s: %w", request.Namespace, request.Name, err)
	}
	return list.Items, nil
}

// The indexes of the open requests in the cache.
const (
	openOfConsumer = "open.consumer"
	openOfUser     = "open.requester"
)

// CountOpen returns how many requests without an end a consumer has, and how many a user made.
func (s Stored) CountOpen(ctx context.Context, consumer quotav1alpha1.ConsumerRef, requester string) (ofConsumer, ofUser int, err error) {
	count := func(index, value string) (int, error) {
		var list quotav1alpha1.QuotaRequestList
		if err := s.Cached.List(ctx, &list, client.MatchingFields{index: value}, client.UnsafeDisableDeepCopy); err != nil {
			return 0, fmt.Errorf("list the open QuotaRequests: %w", err)
		}
		return len(list.Items), nil
	}
	if ofConsumer, err = count(openOfConsumer, naming.Ledger(consumer)); err != nil {
		return 0, 0, err
	}
	ofUser, err = count(openOfUser, requester)
	return ofConsumer, ofUser, err
}

// IndexOpen makes a cache find the open requests of a consumer and of a user. Call it once, before the cache starts.
func IndexOpen(ctx context.Context, indexer client.FieldIndexer) error {
	byConsumer := func(object client.Object) []string {
		if request := object.(*quotav1alpha1.QuotaRequest); !quotarequest.IsFinal(request) {
			return []string{naming.Ledger(request.Spec.ConsumerRef)}
		}
		return nil
	}
	byUser := func(object client.Object) []string {
		if request := object.(*quotav1alpha1.QuotaRequest); !quotarequest.IsFinal(request) && request.Spec.Requester != nil {
			return []string{request.Spec.Requester.Username}
		}
		return nil
	}
	for index, of := range map[string]client.IndexerFunc{openOfConsumer: byConsumer, openOfUser: byUser} {
		if err := indexer.IndexField(ctx, &quotav1alpha1.QuotaRequest{}, index, of); err != nil {
			return fmt.Errorf("find open QuotaRequests: %w", err)
		}
	}
	return nil
}
