package request

import (
	"context"
	"errors"
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/quotarequest"
	"github.com/bursar/bursar/internal/usage"
)

// StateTimeout bounds the wait until the controller takes up a request or a decision.
const StateTimeout = 10 * time.Second

func isFinal(request *quotav1alpha1.QuotaRequest) bool { return quotarequest.IsFinal(request) }

func conditionOf(request *quotav1alpha1.QuotaRequest) *metav1.Condition {
	return apimeta.FindStatusCondition(request.Status.Conditions, quotav1alpha1.ConditionApproved)
}

// isInTransit reports whether a request is approved, and neither granted yet nor waiting for room.
func isInTransit(request *quotav1alpha1.QuotaRequest) bool {
	approved := request.Status.Approved
	return approved != nil && !approved.GrantWaits && !isFinal(request)
}

// stateOf returns the reason of the condition Approved, or "" if there is none yet.
func stateOf(request *quotav1alpha1.QuotaRequest) string {
	if c := conditionOf(request); c != nil {
		return c.Reason
	}
	return ""
}

func messageOf(request *quotav1alpha1.QuotaRequest) string {
	if c := conditionOf(request); c != nil {
		return usage.OneLine(c.Message)
	}
	return ""
}

// IsDecided reports whether a request has ended.
func IsDecided(request *quotav1alpha1.QuotaRequest) bool { return isFinal(request) }

// IsDenied reports whether a request has ended without an approval.
func IsDenied(request *quotav1alpha1.QuotaRequest) bool {
	c := conditionOf(request)
	return c != nil && c.Status == metav1.ConditionFalse
}

// await reads a request, and watches it until it is as wanted. After the timeout, it returns the request as it is; a
// timeout of 0 has no end.
func await(
	ctx context.Context, api client.WithWatch, key client.ObjectKey, timeout time.Duration, isWanted func(*quotav1alpha1.QuotaRequest) bool,
) (*quotav1alpha1.QuotaRequest, error) {
	waiting, cancel := watchtools.ContextWithOptionalTimeout(ctx, timeout)
	defer cancel()
	request := &quotav1alpha1.QuotaRequest{}
	if err := api.Get(waiting, key, request); err != nil {
		return nil, readFailure(ctx, api, key, err)
	}
	if isWanted(request) {
		return request, nil
	}
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, key.Name)
	watcher := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = only.String()
			list := &quotav1alpha1.QuotaRequestList{}
			return list, api.List(ctx, list, &client.ListOptions{Namespace: key.Namespace, Raw: &options})
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = only.String()
			return api.Watch(ctx, &quotav1alpha1.QuotaRequestList{}, &client.ListOptions{Namespace: key.Namespace, Raw: &options})
		},
	}
	isDeleted := false
	// The server may restart meanwhile: an informer then lists again.
	_, err := watchtools.UntilWithSync(waiting, watcher, request, nil, func(event watch.Event) (bool, error) {
		seen, isRequest := event.Object.(*quotav1alpha1.QuotaRequest)
		if !isRequest {
			return false, nil
		}
		request, isDeleted = seen, event.Type == watch.Deleted
		return isDeleted || isWanted(seen), nil
	})
	switch {
	case isDeleted:
		return nil, fmt.Errorf("QuotaRequest %s was deleted", key)
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("wait for QuotaRequest %s: interrupted; bursar requests -n %s shows its state", key, key.Namespace)
	case err != nil && !errors.Is(waiting.Err(), context.DeadlineExceeded):
		return nil, failure(fmt.Sprintf("wait for QuotaRequest %s", key), err)
	default:
		return request, nil
	}
}
