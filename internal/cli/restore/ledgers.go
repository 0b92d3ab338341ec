package restore

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/naming"
)

// balance is one resource type of a consumer with one set of dimensions.
type balance struct {
	consumer     quotav1alpha1.ConsumerRef
	resourceType string
	dimensions   ledger.Dimensions
}

// sum is the charge of all claims of a balance.
type sum struct {
	amount ledger.Amount
	claims int64
}

// use is the charge of all claims, with what views show, by balance. sequences has, for each consumer, the sequence
// number of the last reservation behind its claims.
type use struct {
	sums      map[balance]sum
	sequences map[quotav1alpha1.ConsumerRef]int64
}

func newUse() *use {
	return &use{sums: map[balance]sum{}, sequences: map[quotav1alpha1.ConsumerRef]int64{}}
}

// add adds a claim if it holds its charge.
func (u *use) add(claim *quotav1alpha1.ResourceClaim) error {
	if !claims.HoldsCharge(claim) {
		return nil
	}
	charges, err := claims.Charges(claim.Spec.Requests)
	if err != nil {
		return fmt.Errorf("claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	consumer := claim.Spec.ConsumerRef
	u.sequences[consumer] = max(u.sequences[consumer], claims.SequenceOf(claim))
	for _, charge := range charges {
		key := balance{consumer, charge.ResourceType, charge.Dimensions}
		held := u.sums[key]
		total, fits := held.amount.Add(charge.Amount)
		if !fits {
			return fmt.Errorf("claim %s/%s: the amounts of %s are too large to count", claim.Namespace, claim.Name, charge.ResourceType)
		}
		u.sums[key] = sum{total, held.claims + 1}
	}
	return nil
}

// ledgers returns the ledgers of all consumers with policies' claims. They need only the first format, which every
// version can read.
func (u *use) ledgers() map[quotav1alpha1.ConsumerRef]*quotav1alpha1.ConsumerLedgerSpec {
	specs := map[quotav1alpha1.ConsumerRef]*quotav1alpha1.ConsumerLedgerSpec{}
	for consumer, sequence := range u.sequences {
		specs[consumer] = &quotav1alpha1.ConsumerLedgerSpec{ConsumerRef: consumer, Format: 1, Sequence: sequence}
	}
	keys := slices.SortedFunc(maps.Keys(u.sums), compareBalances)
	for _, key := range keys {
		spec := specs[key.consumer]
		spec.Used = append(spec.Used, quotav1alpha1.LedgerUsage{
			ResourceType: key.resourceType, Dimensions: key.dimensions.Map(), Amount: int64(u.sums[key].amount), Claims: u.sums[key].claims,
		})
	}
	return specs
}

// writeLedgers writes the ledgers of consumers without one. Otherwise Bursar would compute each from the claims in its
// cache, and some may be missing there. It leaves existing ledgers to the audit.
func (r *restorer) writeLedgers(ctx context.Context) error {
	if r.DryRun {
		return nil
	}
	held := newUse()
	err := r.eachClaim(ctx, "", func(claim *quotav1alpha1.ResourceClaim) error {
		if claims.IsView(claim) || !claimcache.IsFromPolicy(claim) {
			return nil // Bursar observes its object, or the claim itself
		}
		return held.add(claim)
	})
	if err != nil {
		return err
	}
	ledgers := r.bursar.Resource(quotav1alpha1.GroupVersion.WithResource("consumerledgers"))
	for consumer, spec := range held.ledgers() {
		content, err := json.Marshal(spec)
		if err != nil {
			return fmt.Errorf("encode the ledger of %s %s: %w", consumer.Kind, consumer.Name, err)
		}
		fields := map[string]any{}
		if err := json.Unmarshal(content, &fields); err != nil {
			return fmt.Errorf("encode the ledger of %s %s: %w", consumer.Kind, consumer.Name, err)
		}
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": quotav1alpha1.GroupVersion.String(), "kind": "ConsumerLedger", "metadata": map[string]any{"name": naming.Ledger(consumer)}, "spec": fields,
		}}
		if _, err := ledgers.Create(ctx, object, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("write the ledger of %s %s: %w", consumer.Kind, consumer.Name, err)
		}
	}
	return nil
}
