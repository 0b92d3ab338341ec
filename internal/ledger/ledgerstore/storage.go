package ledgerstore

import (
	"context"
	"errors"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// Version identifies one stored state of a consumer's ledger. It is empty without a stored ledger.
type Version string

// ErrConflict is the error of [Storage.Write] if the stored version is not the expected one. Write has changed nothing.
var ErrConflict = errors.New("the stored ledger has another version")

// RejectedError is the error of [Storage.Write] if storage rejected the write for good: the same write cannot succeed
// later. Write has changed nothing.
type RejectedError struct {
	Err error
	// ForContent is true if the content is the reason, such as its size. Storage may accept another ledger.
	ForContent bool
}

func (e *RejectedError) Error() string { return e.Err.Error() }
func (e *RejectedError) Unwrap() error { return e.Err }

// Storage stores the ledgers of consumers. Each method is atomic and linearizable. An error other than [ErrConflict]
// and [RejectedError] leaves the outcome unknown: a write may have taken effect, or may do so later.
type Storage interface {
	// Read returns the stored ledger and its version, or an empty snapshot and an empty version.
	Read(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (ledger.Snapshot, Version, error)
	// Write replaces the ledger if the stored version is still the expected one, and returns the new version.
	Write(ctx context.Context, consumer quotav1alpha1.ConsumerRef, snapshot ledger.Snapshot, expected Version) (Version, error)
	// CurrentVersion returns the stored version. It costs less than Read.
	CurrentVersion(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (Version, error)
}
