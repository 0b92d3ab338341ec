package allocationstore

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger/ledgerapi"
)

// Storage stores allocations and their ledgers. Errors are those of the API server, and [ledgerapi.ErrConflict].
type Storage interface {
	// Read returns the stored allocation.
	Read(ctx context.Context, name string) (*quotav1alpha1.ResourceQuotaAllocation, error)
	// WriteStatus stores the status of an allocation unless somebody changed the allocation since its resource version.
	// It returns the stored object.
	WriteStatus(ctx context.Context, object *quotav1alpha1.ResourceQuotaAllocation) (*quotav1alpha1.ResourceQuotaAllocation, error)
	// ReadLedger returns the stored ledger, or nil if there is none.
	ReadLedger(ctx context.Context, name string) (*quotav1alpha1.AllocationLedger, error)
	// WriteLedger stores a ledger unless somebody changed it since its resource version. It creates one without a
	// version. It returns the new version.
	WriteLedger(ctx context.Context, ledger *quotav1alpha1.AllocationLedger) (string, error)
}

// APIStorage is [Storage] on an API server.
type APIStorage struct {
	live    client.Reader
	client  client.Client
	ledgers *ledgerapi.Client
}

var _ Storage = (*APIStorage)(nil)

// NewAPIStorage returns storage on an API server. It reads allocations with live, writes them with client, and reaches
// ledgers with config.
func NewAPIStorage(live client.Reader, client client.Client, config *rest.Config, httpClient *http.Client) (*APIStorage, error) {
	ledgers, err := ledgerapi.New(config, httpClient, "allocationledgers", nil)
	if err != nil {
		return nil, err
	}
	return &APIStorage{live: live, client: client, ledgers: ledgers}, nil
}

// Read implements [Storage].
func (s *APIStorage) Read(ctx context.Context, name string) (*quotav1alpha1.ResourceQuotaAllocation, error) {
	object := &quotav1alpha1.ResourceQuotaAllocation{}
	if err := s.live.Get(ctx, client.ObjectKey{Name: name}, object); err != nil {
		return nil, err
	}
	return object, nil
}

// WriteStatus implements [Storage].
func (s *APIStorage) WriteStatus(ctx context.Context, object *quotav1alpha1.ResourceQuotaAllocation) (*quotav1alpha1.ResourceQuotaAllocation, error) {
	if err := s.client.Status().Update(ctx, object); err != nil {
		return nil, err
	}
	return object, nil
}

// ReadLedger implements [Storage].
func (s *APIStorage) ReadLedger(ctx context.Context, name string) (*quotav1alpha1.AllocationLedger, error) {
	ledger := &quotav1alpha1.AllocationLedger{}
	err := s.ledgers.Read(ctx, name, ledger)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read AllocationLedger %s: %w", name, err)
	}
	return ledger, nil
}

// WriteLedger implements [Storage].
func (s *APIStorage) WriteLedger(ctx context.Context, ledger *quotav1alpha1.AllocationLedger) (string, error) {
	return s.ledgers.Write(ctx, ledger)
}
