package ledgerstore

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerapi"
)

// specOf encodes a snapshot.
func specOf(consumer quotav1alpha1.ConsumerRef, snapshot ledger.Snapshot) quotav1alpha1.ConsumerLedgerSpec {
	spec := quotav1alpha1.ConsumerLedgerSpec{
		ConsumerRef:  consumer,
		Format:       formatOf(&snapshot),
		Sequence:     snapshot.Sequence,
		Grants:       make([]quotav1alpha1.LedgerGrant, 0, len(snapshot.Grants)),
		Reservations: make([]quotav1alpha1.LedgerReservation, 0, len(snapshot.Reservations)),
	}
	for _, s := range snapshot.Slices {
		stored := quotav1alpha1.LedgerSlice{Holder: s.Holder, WrittenAt: s.WrittenAt, Revoked: s.IsRevoked, Amounts: map[string]int64{}}
		for resourceType, amount := range s.Amounts {
			stored.Amounts[resourceType] = int64(amount)
		}
		spec.Slices = append(spec.Slices, stored)
	}
	spec.Observations = storedObservations(snapshot.Observations)
	spec.Journal = storedJournal(snapshot.Journal)
	for _, g := range snapshot.Grants {
		stored := quotav1alpha1.LedgerGrant{UID: g.UID, Namespace: g.Namespace, Name: g.Name, Generation: g.Generation}
		for _, a := range g.Allowances {
			stored.Allowances = append(stored.Allowances, quotav1alpha1.LedgerAllowance{
				ResourceType: a.ResourceType, Amount: int64(a.Amount), DimensionSelector: labelSelectorOf(a.Selector),
			})
		}
		spec.Grants = append(spec.Grants, stored)
	}
	for _, r := range snapshot.Reservations {
		spec.Reservations = append(spec.Reservations, quotav1alpha1.LedgerReservation{
			Key: r.Key, Sequence: r.Sequence, ReservedAt: r.ReservedAt,
			Charges: storedCharges(r.Charges),
			Awaits:  storedAwaited(r.Awaits), Claim: r.Claim,
		})
	}
	return spec
}

// formatOfSlices is the earliest format with slices.
const formatOfSlices = 3

// formatOfObservations is the earliest format with observed demand, and with reservations that wait for it.
const formatOfObservations = 4

// formatOf returns the earliest format with everything in a ledger: during an update, replicas of the earlier version
// can use most ledgers. Format 3 has slices, and format 4 observed demand.
func formatOf(snapshot *ledger.Snapshot) int64 {
	switch {
	case len(snapshot.Observations) > 0, slices.ContainsFunc(snapshot.Reservations, awaitsObservation):
		return formatOfObservations
	case len(snapshot.Slices) > 0:
		return formatOfSlices
	default:
		return 1
	}
}

// SnapshotOf decodes a stored ledger.
func SnapshotOf(spec *quotav1alpha1.ConsumerLedgerSpec) (ledger.Snapshot, error) {
	if spec.Format > quotav1alpha1.ConsumerLedgerFormat {
		return ledger.Snapshot{}, &ledgerapi.FormatError{Format: spec.Format}
	}
	snapshot := ledger.Snapshot{Sequence: spec.Sequence, Journal: journalOf(spec.Journal)}
	var err error
	if snapshot.Observations, err = observationsOf(spec.Observations); err != nil {
		return snapshot, err
	}
	for _, g := range spec.Grants {
		grant := ledger.Grant{UID: g.UID, Namespace: g.Namespace, Name: g.Name, Generation: g.Generation}
		for _, a := range g.Allowances {
			selector, err := SelectorOf(a.DimensionSelector)
			if err != nil {
				return snapshot, fmt.Errorf("grant %s/%s, allowance of %s: %w", g.Namespace, g.Name, a.ResourceType, err)
			}
			grant.Allowances = append(grant.Allowances, ledger.Allowance{
				ResourceType: a.ResourceType, Selector: selector, Amount: ledger.Amount(a.Amount),
			})
		}
		snapshot.Grants = append(snapshot.Grants, grant)
	}
	for _, s := range spec.Slices {
		slice := ledger.Slice{Holder: s.Holder, WrittenAt: s.WrittenAt, IsRevoked: s.Revoked, Amounts: map[string]ledger.Amount{}}
		for resourceType, amount := range s.Amounts {
			slice.Amounts[resourceType] = ledger.Amount(amount)
		}
		snapshot.Slices = append(snapshot.Slices, slice)
	}
	for _, r := range spec.Reservations {
		reservation, err := reservationOf(&r)
		if err != nil {
			return snapshot, fmt.Errorf("reservation %s: %w", r.Key, err)
		}
		snapshot.Reservations = append(snapshot.Reservations, reservation)
	}
	return snapshot, nil
}

func reservationOf(stored *quotav1alpha1.LedgerReservation) (ledger.Reservation, error) {
	r := ledger.Reservation{Key: stored.Key, Sequence: stored.Sequence, ReservedAt: stored.ReservedAt, Claim: stored.Claim}
	var err error
	if r.Charges, err = chargesOf(stored.Charges); err != nil {
		return r, err
	}
	r.Awaits, err = awaitedOf(stored.Awaits)
	return r, err
}

func storedCharges(charges []ledger.Charge) []quotav1alpha1.LedgerCharge {
	var stored []quotav1alpha1.LedgerCharge
	for _, c := range charges {
		stored = append(stored, quotav1alpha1.LedgerCharge{ResourceType: c.ResourceType, Dimensions: c.Dimensions.Map(), Amount: int64(c.Amount)})
	}
	return stored
}

func chargesOf(stored []quotav1alpha1.LedgerCharge) ([]ledger.Charge, error) {
	var charges []ledger.Charge
	for _, s := range stored {
		dimensions, err := ledger.NewDimensions(s.Dimensions)
		if err != nil {
			return nil, fmt.Errorf("charge of %s: %w", s.ResourceType, err)
		}
		charges = append(charges, ledger.Charge{ResourceType: s.ResourceType, Dimensions: dimensions, Amount: ledger.Amount(s.Amount)})
	}
	return charges, nil
}

// SelectorOf decodes a label selector over dimensions. A nil selector and an empty one match everything: an allowance
// without a selector is for any request.
func SelectorOf(selector *metav1.LabelSelector) (ledger.Selector, error) {
	if selector == nil {
		return ledger.Selector{}, nil
	}
	var requirements []ledger.Requirement
	for key, value := range selector.MatchLabels {
		requirements = append(requirements, ledger.Requirement{Key: key, Operator: ledger.In, Values: []string{value}})
	}
	for _, e := range selector.MatchExpressions {
		requirements = append(requirements, ledger.Requirement{Key: e.Key, Operator: ledger.Operator(e.Operator), Values: e.Values})
	}
	return ledger.NewSelector(requirements...)
}

func labelSelectorOf(selector ledger.Selector) *metav1.LabelSelector {
	if selector.MatchesEverything() {
		return nil
	}
	stored := &metav1.LabelSelector{}
	for _, r := range selector.Requirements() {
		stored.MatchExpressions = append(stored.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: r.Key, Operator: metav1.LabelSelectorOperator(r.Operator), Values: r.Values,
		})
	}
	return stored
}
