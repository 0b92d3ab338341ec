package allocationstore

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Storage keeps allocations. Errors are those of the API server.
type Storage interface {
	// Read returns an allocation as it is stored now.
	Read(ctx context.Context, name string) (*quotav1alpha1.ResourceQuotaAllocation, error)
	// WriteStatus stores the status of an allocation if nobody has stored it since the resource version that it
	// has, and returns what is stored then.
	WriteStatus(ctx context.Context, object *quotav1alpha1.ResourceQuotaAllocation) (*quotav1alpha1.ResourceQuotaAllocation, error)
}

// APIStorage keeps allocations on an API server.
type APIStorage struct {
	// Live reads from the API server, and Client writes.
	Live   client.Reader
	Client client.Client
}

// Read implements [Storage].
func (s APIStorage) Read(ctx context.Context, name string) (*quotav1alpha1.ResourceQuotaAllocation, error) {
	object := &quotav1alpha1.ResourceQuotaAllocation{}
	if err := s.Live.Get(ctx, client.ObjectKey{Name: name}, object); err != nil {
		return nil, err
	}
	return object, nil
}

// WriteStatus implements [Storage].
func (s APIStorage) WriteStatus(ctx context.Context, object *quotav1alpha1.ResourceQuotaAllocation) (*quotav1alpha1.ResourceQuotaAllocation, error) {
	if err := s.Client.Status().Update(ctx, object); err != nil {
		return nil, err
	}
	return object, nil
}
