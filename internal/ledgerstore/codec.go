package ledgerstore

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// specOf writes books in the form in which they are stored.
func specOf(consumer quotav1alpha1.ConsumerRef, books ledger.Books) quotav1alpha1.ConsumerLedgerSpec {
	spec := quotav1alpha1.ConsumerLedgerSpec{
		ConsumerRef:  consumer,
		Sequence:     books.Sequence,
		Grants:       make([]quotav1alpha1.LedgerGrant, 0, len(books.Grants)),
		Used:         make([]quotav1alpha1.LedgerUsage, 0, len(books.Used)),
		Reservations: make([]quotav1alpha1.LedgerReservation, 0, len(books.Reservations)),
		Released:     books.Released,
	}
	for _, g := range books.Grants {
		stored := quotav1alpha1.LedgerGrant{UID: g.UID, Namespace: g.Namespace, Name: g.Name, Generation: g.Generation}
		for _, a := range g.Allowances {
			stored.Allowances = append(stored.Allowances, quotav1alpha1.LedgerAllowance{
				ResourceType: a.ResourceType, Amount: int64(a.Amount), DimensionSelector: labelSelectorOf(a.Selector),
			})
		}
		spec.Grants = append(spec.Grants, stored)
	}
	for _, u := range books.Used {
		spec.Used = append(spec.Used, quotav1alpha1.LedgerUsage{
			ResourceType: u.ResourceType, Dimensions: u.Dimensions.Map(), Amount: int64(u.Amount), Claims: u.Claims,
		})
	}
	for _, r := range books.Reservations {
		stored := quotav1alpha1.LedgerReservation{Key: r.Key, Sequence: r.Sequence, ReservedAt: r.ReservedAt, Claim: r.Claim}
		for _, charge := range r.Charges {
			stored.Charges = append(stored.Charges, quotav1alpha1.LedgerCharge{
				ResourceType: charge.ResourceType, Dimensions: charge.Dimensions.Map(), Amount: int64(charge.Amount),
			})
		}
		spec.Reservations = append(spec.Reservations, stored)
	}
	return spec
}

// booksOf reads stored books.
func booksOf(spec *quotav1alpha1.ConsumerLedgerSpec) (ledger.Books, error) {
	books := ledger.Books{Sequence: spec.Sequence, Released: spec.Released}
	for _, g := range spec.Grants {
		grant := ledger.Grant{UID: g.UID, Namespace: g.Namespace, Name: g.Name, Generation: g.Generation}
		for _, a := range g.Allowances {
			selector, err := SelectorOf(a.DimensionSelector)
			if err != nil {
				return books, fmt.Errorf("grant %s/%s, allowance of %s: %w", g.Namespace, g.Name, a.ResourceType, err)
			}
			grant.Allowances = append(grant.Allowances, ledger.Allowance{
				ResourceType: a.ResourceType, Selector: selector, Amount: ledger.Amount(a.Amount),
			})
		}
		books.Grants = append(books.Grants, grant)
	}
	for _, u := range spec.Used {
		dimensions, err := ledger.NewDimensions(u.Dimensions)
		if err != nil {
			return books, fmt.Errorf("usage of %s: %w", u.ResourceType, err)
		}
		books.Used = append(books.Used, ledger.Usage{
			ResourceType: u.ResourceType, Dimensions: dimensions, Amount: ledger.Amount(u.Amount), Claims: u.Claims,
		})
	}
	for _, r := range spec.Reservations {
		reservation := ledger.Reservation{Key: r.Key, Sequence: r.Sequence, ReservedAt: r.ReservedAt, Claim: r.Claim}
		for _, charge := range r.Charges {
			dimensions, err := ledger.NewDimensions(charge.Dimensions)
			if err != nil {
				return books, fmt.Errorf("reservation %s, charge of %s: %w", r.Key, charge.ResourceType, err)
			}
			reservation.Charges = append(reservation.Charges, ledger.Charge{
				ResourceType: charge.ResourceType, Dimensions: dimensions, Amount: ledger.Amount(charge.Amount),
			})
		}
		books.Reservations = append(books.Reservations, reservation)
	}
	return books, nil
}

// SelectorOf reads a label selector over dimensions. None at all selects everything, as does
// an empty one: an allowance without a selector is for any request.
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
