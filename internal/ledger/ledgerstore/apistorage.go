package ledgerstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerapi"
	"github.com/bursar/bursar/internal/naming"
)

// APIStorage is [Storage] in ConsumerLedger objects of a Kubernetes API server.
type APIStorage struct {
	ledgers *ledgerapi.Client
}

var _ Storage = (*APIStorage)(nil)

// NewAPIStorage returns storage on the API server of config. It changes ledgers with direct unless direct is nil.
func NewAPIStorage(config *rest.Config, httpClient *http.Client, direct ledgerapi.Direct) (*APIStorage, error) {
	ledgers, err := ledgerapi.New(config, httpClient, "consumerledgers", direct)
	if err != nil {
		return nil, err
	}
	return &APIStorage{ledgers: ledgers}, nil
}

// Read implements [Storage] with a read through to etcd.
func (s *APIStorage) Read(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (ledger.Snapshot, Version, error) {
	var object quotav1alpha1.ConsumerLedger
	err := s.ledgers.Read(ctx, naming.Ledger(consumer), &object)
	if apierrors.IsNotFound(err) {
		return ledger.Snapshot{}, "", nil
	}
	if err != nil {
		return ledger.Snapshot{}, "", err
	}
	if object.Spec.ConsumerRef != consumer {
		return ledger.Snapshot{}, "", fmt.Errorf("ConsumerLedger %s is of another consumer, %s", object.Name, describe(object.Spec.ConsumerRef))
	}
	snapshot, err := SnapshotOf(&object.Spec)
	if err != nil {
		return ledger.Snapshot{}, "", fmt.Errorf("decode ConsumerLedger %s: %w", object.Name, err)
	}
	return snapshot, Version(object.ResourceVersion), nil
}

// Write implements [Storage].
func (s *APIStorage) Write(ctx context.Context, consumer quotav1alpha1.ConsumerRef, snapshot ledger.Snapshot, expected Version) (Version, error) {
	version, err := s.ledgers.Write(ctx, &quotav1alpha1.ConsumerLedger{
		TypeMeta: metav1.TypeMeta{APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ConsumerLedger"},
		ObjectMeta: metav1.ObjectMeta{
			Name: naming.Ledger(consumer), ResourceVersion: string(expected),
			Annotations: annotationsOf(&snapshot),
		},
		Spec: specOf(consumer, snapshot),
	})
	return Version(version), classify(err)
}

// CurrentVersion implements [Storage].
func (s *APIStorage) CurrentVersion(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (Version, error) {
	version, err := s.ledgers.Version(ctx, naming.Ledger(consumer))
	return Version(version), err
}

// classify sorts the errors of a write. An invalid, too large or forbidden request has written nothing and never will.
// etcd's error about size arrives as an internal server error without a reason.
func classify(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ledgerapi.ErrConflict):
		return ErrConflict
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err),
		strings.Contains(err.Error(), "request is too large"):
		return &RejectedError{Err: err, ForContent: true}
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return &RejectedError{Err: err}
	default:
		return err
	}
}

// annotationsOf returns what readers of the metadata of a ledger learn about it.
func annotationsOf(snapshot *ledger.Snapshot) map[string]string {
	annotations := map[string]string{quotav1alpha1.AnnotationUnfinished: string(UnfinishedIn(snapshot))}
	if observed := ObservedIn(slices.Values(snapshot.Observations)); observed != "" {
		annotations[quotav1alpha1.AnnotationObserved] = string(observed)
	}
	return annotations
}
