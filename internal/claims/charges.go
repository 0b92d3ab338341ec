package claims

import (
	"fmt"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// Charges returns the charges of a claim's requests.
func Charges(requests []quotav1alpha1.ResourceRequest) ([]ledger.Charge, error) {
	charges := make([]ledger.Charge, 0, len(requests))
	for _, request := range requests {
		dimensions, err := ledger.NewDimensions(request.Dimensions)
		if err != nil {
			return nil, fmt.Errorf("request for %s: %w", request.ResourceType, err)
		}
		charges = append(charges, ledger.Charge{
			ResourceType: request.ResourceType,
			Dimensions:   dimensions,
			Amount:       ledger.Amount(request.Amount),
		})
	}
	return charges, nil
}
