package ledgerstore

import (
	"context"
	"errors"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// Version tells one stored state of a consumer's books from every other. It is empty when
// nothing is stored.
type Version string

// ErrConflict is returned by [Storage.Write] when the stored version is not the expected one.
// Nothing was written.
var ErrConflict = errors.New("the stored ledger has another version")

// RejectedError is returned by [Storage.Write] when the write was refused for good: trying
// the same write again cannot succeed. Nothing was written.
type RejectedError struct {
	Err error
	// ForContent is set if that is because of what was to be written, such as its size: other books
	// may be accepted.
	ForContent bool
}

func (e *RejectedError) Error() string { return e.Err.Error() }
func (e *RejectedError) Unwrap() error { return e.Err }

// Storage keeps the books of consumers. Each method is atomic and linearizable. An error that
// is neither [ErrConflict] nor a [RejectedError] leaves the outcome unknown: a write may have
// taken effect, or may yet.
type Storage interface {
	// Read returns the stored books and their version, or empty books and an empty version.
	Read(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (ledger.Snapshot, Version, error)
	// Write replaces the books if their stored version is still expected, and returns the new version.
	Write(ctx context.Context, consumer quotav1alpha1.ConsumerRef, snapshot ledger.Snapshot, expected Version) (Version, error)
	// CurrentVersion returns the stored version. It costs less than Read.
	CurrentVersion(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (Version, error)
}
