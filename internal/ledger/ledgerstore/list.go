package ledgerstore

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// EachPage calls f with all ledgers that live has, page by page, until f returns an error. There are none where their kind
// is not served.
func EachPage(ctx context.Context, live client.Reader, f func([]quotav1alpha1.ConsumerLedger) error) error {
	const pageSize = 500
	for next := ""; ; {
		var page quotav1alpha1.ConsumerLedgerList // decoding keeps old values where an answer has none
		err := live.List(ctx, &page, client.Limit(pageSize), client.Continue(next))
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list the ledgers: %w", err)
		}
		if err := f(page.Items); err != nil || page.Continue == "" {
			return err
		}
		next = page.Continue
	}
}
