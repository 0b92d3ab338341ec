package quotarequest

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Stored reads requests for their validation.
type Stored struct {
	// Live reads from the API server, not from a cache.
	Live client.Reader
}

// Request returns a request. The error is NotFound if there is none.
func (s Stored) Request(ctx context.Context, name types.NamespacedName) (*quotav1alpha1.QuotaRequest, error) {
	request := &quotav1alpha1.QuotaRequest{}
	return request, s.Live.Get(ctx, name, request)
}
