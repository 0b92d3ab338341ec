package ledgerstore

import "github.com/bursar/bursar/internal/ledger"

// shortagesOf returns the shortages of reservations too large together. It checks each resource type by itself, because
// the ledger bounds the charges of one check and decides each type independently.
func shortagesOf(l *ledger.Ledger, reservations []ledger.Reservation) []ledger.Shortage {
	var shortages []ledger.Shortage
	for _, charges := range byResourceType(reservations) {
		if d := l.Check(charges); d.Code == ledger.Exceeded {
			shortages = append(shortages, d.Shortages...)
		}
	}
	return shortages
}

// byResourceType adds up the charges of reservations by resource type, in order of first occurrence. An overflowing sum
// becomes the maximum, and no limit allows it.
func byResourceType(reservations []ledger.Reservation) [][]ledger.Charge {
	var types [][]ledger.Charge
	for i := range reservations {
		for _, charge := range reservations[i].Charges {
			types = addCharge(types, charge)
		}
	}
	return types
}

func addCharge(types [][]ledger.Charge, charge ledger.Charge) [][]ledger.Charge {
	for i, charges := range types {
		if charges[0].ResourceType != charge.ResourceType {
			continue
		}
		for j := range charges {
			if charges[j].Dimensions == charge.Dimensions {
				total, ok := charges[j].Amount.Add(charge.Amount)
				if !ok {
					total = ledger.AmountMax
				}
				charges[j].Amount = total
				return types
			}
		}
		types[i] = append(charges, charge)
		return types
	}
	return append(types, []ledger.Charge{charge})
}
