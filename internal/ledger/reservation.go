package ledger

import "slices"

// Charge is an amount of a resource type with its dimensions.
type Charge struct {
	ResourceType string
	Dimensions   Dimensions
	// Amount is positive.
	Amount Amount
}

// Growth returns by how much charges become more, by resource type and dimensions. It leaves out those that do not.
func Growth(before, after []Charge) []Charge {
	var more []Charge
	for _, charge := range after {
		i := slices.IndexFunc(before, func(b Charge) bool {
			return b.ResourceType == charge.ResourceType && b.Dimensions == charge.Dimensions
		})
		if i >= 0 {
			charge.Amount -= before[i].Amount
		}
		if charge.Amount > 0 {
			more = append(more, charge)
		}
	}
	return more
}

// Reservation holds charges for a claim until the claim exists.
type Reservation struct {
	// Key identifies the reservation: reserving the same key again changes nothing.
	Key string
	// Sequence comes from the ledger and grows with every reservation. It distinguishes a reservation from an earlier
	// one with the same key.
	Sequence int64
	// ReservedAt is the time of the reservation in seconds since 1970. The ledger does not use it.
	ReservedAt int64
	// Charges are 1 to [ChargesMax] charges with distinct pairs of resource type and dimensions.
	Charges []Charge
	// Awaits is the change that ends the reservation once it is observed, see [Ledger.Observe]. Without it, only the
	// caller ends the reservation.
	Awaits *Awaited
	// Claim is the caller's payload: enough to finish the claim.
	Claim string
	// Subject is the subject in the record of the reservation, see [Record]. Default: Claim. Actor is the requester of
	// the reservation, if known. The ledger keeps neither.
	Subject, Actor string
}

// Check returns the code of the first error of a request for the reservation without regard to a ledger, or Admitted.
func (r *Reservation) Check() Code {
	if !validKey(r.Key) {
		return KeyInvalid
	}
	return r.validate()
}

// validate returns the code of the first error, apart from those of the key, or Admitted.
func (r *Reservation) validate() Code {
	if len(r.Claim) > ClaimBytesMax {
		return ClaimTooLong
	}
	if r.Awaits != nil && !r.Awaits.isValid() {
		return KeyInvalid
	}
	return validateCharges(r.Charges)
}

// validateCharges returns the error code with the highest precedence, or Admitted.
func validateCharges(charges []Charge) Code {
	switch {
	case len(charges) == 0:
		return ChargesMissing
	case len(charges) > ChargesMax:
		return ChargesTooMany
	}
	for i := range charges {
		if !validResourceType(charges[i].ResourceType) {
			return ResourceTypeInvalid
		}
	}
	for i := range charges {
		if charges[i].Amount <= 0 {
			return AmountNotPositive
		}
	}
	for i := range charges {
		for j := range charges[:i] {
			if charges[i].ResourceType == charges[j].ResourceType && charges[i].Dimensions == charges[j].Dimensions {
				return ChargeRepeated
			}
		}
	}
	return Admitted
}

func validKey(key string) bool { return key != "" && len(key) <= KeyBytesMax }

func validResourceType(resourceType string) bool {
	return resourceType != "" && len(resourceType) <= ResourceTypeBytesMax
}
