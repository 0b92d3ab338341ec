package ledger

import "cmp"

// Charge is an amount of a resource type with its dimensions.
type Charge struct {
	ResourceType string
	Dimensions   Dimensions
	// Amount is positive.
	Amount Amount
}

// Reservation holds charges for a claim that is being created.
type Reservation struct {
	// Key identifies the reservation: reserving the same key again changes nothing.
	Key string
	// Sequence is given by the ledger and grows with every reservation. It tells a reservation
	// from an earlier one with the same key.
	Sequence int64
	// ReservedAt is the time of the reservation in seconds since 1970. The ledger only keeps it.
	ReservedAt int64
	// Charges are 1 to [ChargesMax], each of another pair of resource type and dimensions.
	Charges []Charge
	// Replaces is what the claim holds settled, where the reservation is an amendment: it changes
	// what a settled claim holds, see [Ledger.Amend]. Charges are then what is held in addition to
	// that, and may be none.
	Replaces []Charge
	// Claim is kept for the caller, who can finish the claim from it.
	Claim string
}

// amends tells whether the reservation is an amendment.
func (r *Reservation) amends() bool { return len(r.Replaces) > 0 }

// flaw returns the code of the first flaw that the reservation has apart from its key, or
// Admitted if it has none.
func (r *Reservation) validate() Code {
	if len(r.Claim) > ClaimBytesMax {
		return ClaimTooLong
	}
	if r.amends() {
		return cmp.Or(validateOptionalCharges(r.Charges), validateCharges(r.Replaces))
	}
	return validateCharges(r.Charges)
}

// validateOptionalCharges is validateCharges for charges that may be none. It returns 0 in place of Admitted.
func validateOptionalCharges(charges []Charge) Code {
	if len(charges) == 0 {
		return 0
	}
	if code := validateCharges(charges); code != Admitted {
		return code
	}
	return 0
}

// validateCharges returns the code with the highest precedence among the flaws of the charges, or
// Admitted if they have none.
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
