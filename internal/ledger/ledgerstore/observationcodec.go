package ledgerstore

import (
	"fmt"
	"slices"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// awaitsObservation reports whether an observation ends the reservation.
func awaitsObservation(r ledger.Reservation) bool { return r.Awaits != nil }

// storedObservations encodes observed demand.
func storedObservations(observations []ledger.Observation) []quotav1alpha1.LedgerObservation {
	var all []quotav1alpha1.LedgerObservation
	for _, o := range observations {
		stored := quotav1alpha1.LedgerObservation{
			Kind: o.Kind, ObjectsVersion: int64(o.Basis.Objects),
			NamespacesVersion: int64(o.Basis.Namespaces), PoliciesVersion: int64(o.Basis.Policies),
		}
		for _, d := range o.Demands {
			stored.Demands = append(stored.Demands, quotav1alpha1.LedgerDemand{
				ResourceType: d.ResourceType, Dimensions: d.Dimensions.Map(), Amount: int64(d.Amount), Objects: d.Objects,
			})
		}
		all = append(all, stored)
	}
	return all
}

// observationsOf decodes observed demand.
func observationsOf(stored []quotav1alpha1.LedgerObservation) ([]ledger.Observation, error) {
	var all []ledger.Observation
	for i := range stored {
		o, err := observationOf(&stored[i])
		if err != nil {
			return nil, fmt.Errorf("observation of %s: %w", stored[i].Kind, err)
		}
		all = append(all, o)
	}
	return all, nil
}

func observationOf(stored *quotav1alpha1.LedgerObservation) (ledger.Observation, error) {
	if err := checkVersions(stored.ObjectsVersion, stored.NamespacesVersion, stored.PoliciesVersion); err != nil {
		return ledger.Observation{}, err
	}
	o := ledger.Observation{Kind: stored.Kind, Basis: ledger.Basis{
		Objects:    ledger.Version(stored.ObjectsVersion),
		Namespaces: ledger.Version(stored.NamespacesVersion),
		Policies:   ledger.Version(stored.PoliciesVersion),
	}}
	for _, d := range stored.Demands {
		dimensions, err := ledger.NewDimensions(d.Dimensions)
		if err != nil {
			return o, fmt.Errorf("demand for %s: %w", d.ResourceType, err)
		}
		if d.Amount < 0 || d.Objects < 1 {
			return o, fmt.Errorf("demand for %s: %d by %d objects is out of range", d.ResourceType, d.Amount, d.Objects)
		}
		o.Demands = append(o.Demands, ledger.Demand{
			ResourceType: d.ResourceType, Dimensions: dimensions, Amount: ledger.Amount(d.Amount), Objects: d.Objects,
		})
	}
	return o, nil
}

func storedAwaited(a *ledger.Awaited) *quotav1alpha1.LedgerAwaited {
	if a == nil {
		return nil
	}
	return &quotav1alpha1.LedgerAwaited{
		Kind: a.Kind, ID: a.ID, After: int64(a.After), Namespaces: int64(a.Namespaces), Policies: int64(a.Policies),
	}
}

func awaitedOf(stored *quotav1alpha1.LedgerAwaited) (*ledger.Awaited, error) {
	if stored == nil {
		return nil, nil
	}
	if err := checkVersions(stored.After, stored.Namespaces, stored.Policies); err != nil {
		return nil, err
	}
	return &ledger.Awaited{
		Kind: stored.Kind, ID: stored.ID, After: ledger.Version(stored.After),
		Namespaces: ledger.Version(stored.Namespaces), Policies: ledger.Version(stored.Policies),
	}, nil
}

// checkVersions refuses negative versions. An API server has none, and as unsigned numbers they would be later than all
// others.
func checkVersions(stored ...int64) error {
	if least := slices.Min(stored); least < 0 {
		return fmt.Errorf("version %d is negative", least)
	}
	return nil
}
