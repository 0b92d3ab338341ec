package usage

import (
	"context"
	"fmt"
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/naming"
)

// hiddenQuota is quota without an effective grant, because its namespace does not exist.
type hiddenQuota struct {
	items map[pair]*Item
	// grants name one grant of each consumer.
	grants map[quotav1alpha1.ConsumerRef]string
}

// readHidden adds hidden quota to the items. It adds nothing for users without permission to read all grants.
func (r *reader) readHidden(ctx context.Context) (notes []string, err error) {
	if r.filter.Namespace != "" {
		return nil, nil
	}
	hidden, err := r.grantedUnseen(ctx)
	if IsOutOfReach(err) || len(hidden.items) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the grants: %w", err)
	}
	for consumer, grant := range hidden.grants {
		if err := r.readLedger(ctx, consumer, hidden.items); err != nil {
			return nil, err
		}
		if r.filter.matchesConsumer(consumer) {
			notes = append(notes, fmt.Sprintf("The quota of %s is shown in no namespace: the events of ResourceGrant %s say why.", NameOf(consumer), grant))
		}
	}
	slices.Sort(notes)
	for _, item := range hidden.items {
		item.Available = max(0, item.Limit-item.Used)
		item.complete()
		r.all = append(r.all, *item)
	}
	return notes, nil
}

// grantedUnseen reads the limits of hidden quota from active grants.
func (r *reader) grantedUnseen(ctx context.Context) (hiddenQuota, error) {
	shown := map[pair]bool{}
	for _, item := range r.all {
		shown[pair{item.ConsumerRef, item.ResourceType}] = true
	}
	hidden := hiddenQuota{map[pair]*Item{}, map[quotav1alpha1.ConsumerRef]string{}}
	err := eachPage(ctx, r.api, &quotav1alpha1.ResourceGrantList{}, "", func(list *quotav1alpha1.ResourceGrantList) {
		for i := range list.Items {
			if apimeta.IsStatusConditionTrue(list.Items[i].Status.Conditions, quotav1alpha1.ConditionActive) {
				hidden.add(&list.Items[i], shown)
			}
		}
	})
	return hidden, err
}

// add adds the hidden quota of a grant.
func (h hiddenQuota) add(grant *quotav1alpha1.ResourceGrant, shown map[pair]bool) {
	now := time.Now()
	for i := range grant.Spec.Allowances {
		allowance := &grant.Spec.Allowances[i]
		of := pair{grant.Spec.ConsumerRef, allowance.ResourceType}
		if shown[of] || !grant.Spec.Counts(allowance, now) {
			continue
		}
		if h.items[of] == nil {
			h.items[of] = &Item{ConsumerRef: of.consumer, ResourceType: of.resourceType}
		}
		for _, bucket := range allowance.Buckets {
			h.items[of].Limit += bucket.Amount
		}
		h.grants[of.consumer] = grant.Namespace + "/" + grant.Name
	}
}

// readLedger adds the usage of a consumer without an effective grant.
func (r *reader) readLedger(ctx context.Context, consumer quotav1alpha1.ConsumerRef, items map[pair]*Item) error {
	var ledger quotav1alpha1.ConsumerLedger
	err := r.api.Get(ctx, client.ObjectKey{Name: naming.Ledger(consumer)}, &ledger)
	if IsOutOfReach(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the ledger of %s: %w", NameOf(consumer), err)
	}
	add := func(resourceType string, amount int64) {
		if item := items[pair{consumer, resourceType}]; item != nil {
			item.Used += amount
		}
	}
	for _, observation := range ledger.Spec.Observations {
		for _, demand := range observation.Demands {
			add(demand.ResourceType, demand.Amount)
		}
	}
	for _, reservation := range ledger.Spec.Reservations {
		for _, charge := range reservation.Charges {
			add(charge.ResourceType, charge.Amount)
		}
	}
	return nil
}
