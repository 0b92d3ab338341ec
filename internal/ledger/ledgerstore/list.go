package ledgerstore

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// EachPage lists the ledgers through live and calls f with each page, until f returns an error. It succeeds without a
// call if the API server does not serve the kind.
func EachPage(ctx context.Context, live client.Reader, f func([]quotav1alpha1.ConsumerLedger) error) error {
	const pageSize = 500
	for next := ""; ; {
		var page quotav1alpha1.ConsumerLedgerList // new for each page: decoding keeps old values of absent fields
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
