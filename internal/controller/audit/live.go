package audit

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// pageSize is how many objects one request lists.
const pageSize = 500

// Live reads ledgers and claims from the API server. Its reader must not be a cache.
type Live struct{ Reader client.Reader }

// Ledgers returns all stored ledgers.
func (l Live) Ledgers(ctx context.Context) ([]Ledger, error) {
	var ledgers []Ledger
	for next := ""; ; {
		var page quotav1alpha1.ConsumerLedgerList
		if err := l.Reader.List(ctx, &page, client.Limit(pageSize), client.Continue(next)); err != nil {
			return nil, err
		}
		for i := range page.Items {
			ledgers = append(ledgers, listed(&page.Items[i]))
		}
		if next = page.Continue; next == "" {
			return ledgers, nil
		}
	}
}

// listed returns a ledger from a list. An unreadable one is not quiescent, and needs another read.
func listed(object *quotav1alpha1.ConsumerLedger) Ledger {
	l := Ledger{Consumer: object.Spec.ConsumerRef, UID: object.UID}
	if snapshot, err := ledgerstore.SnapshotOf(&object.Spec); err == nil {
		l.readLedger(snapshot)
	}
	return l
}

func (l *Ledger) readLedger(snapshot ledger.Snapshot) {
	l.Quiescent = len(snapshot.Reservations) == 0 && len(snapshot.Released) == 0
	l.Used, l.Withdrawn = snapshot.Used, snapshot.Withdrawn
}

// ClaimsOf returns the claims of a consumer.
func (l Live) ClaimsOf(ctx context.Context, consumer quotav1alpha1.ConsumerRef) ([]*claimcache.Claim, error) {
	claims, _, err := l.ClaimsWhile(ctx, consumer, func() bool { return true })
	return claims, err
}

// ClaimsWhile implements [Stored].
func (l Live) ClaimsWhile(ctx context.Context, consumer quotav1alpha1.ConsumerRef, goOn func() bool) (claims []*claimcache.Claim, isWhole bool, err error) {
	ofRecord := client.MatchingLabelsSelector{Selector: claimcache.OfRecord()}
	named := client.MatchingFields{"spec.consumerRef.kind": consumer.Kind, "spec.consumerRef.name": consumer.Name}
	for next := ""; ; {
		var page quotav1alpha1.ResourceClaimList
		if err := l.Reader.List(ctx, &page, named, ofRecord, client.Limit(pageSize), client.Continue(next)); err != nil {
			return nil, false, fmt.Errorf("list the claims of %s %s: %w", consumer.Kind, consumer.Name, err)
		}
		for i := range page.Items {
			// Consumers of another group or namespace may share kind and name.
			if page.Items[i].Spec.ConsumerRef == consumer {
				claims = append(claims, claimcache.Compact(&page.Items[i]))
			}
		}
		if next = page.Continue; next == "" {
			return claims, true, nil
		}
		if !goOn() {
			return nil, false, nil
		}
	}
}
