package service

import (
	"k8s.io/apimachinery/pkg/api/resource"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	computev1alpha1 "github.com/bursar/bursar/examples/compute/api/v1alpha1"
	"github.com/bursar/bursar/sdk/claims"
)

// The resource types that Instances use, as examples/compute/config/2-registrations.yaml registers them.
const (
	typeInstances = "compute.datumapis.com/instances"
	typeVCPUs     = "compute.datumapis.com/vcpus"  // in millicores
	typeMemory    = "compute.datumapis.com/memory" // in MiB
	typeGPUs      = "compute.datumapis.com/gpus"
)

const mebibyte = 1 << 20

// amountsOf returns the amounts that an Instance with these resources claims, rounded up to base units.
func amountsOf(r computev1alpha1.Resources) []quotav1alpha1.ResourceRequest {
	amounts := []quotav1alpha1.ResourceRequest{
		claims.Amount(typeInstances, 1),
		claims.Amount(typeVCPUs, r.VCPUs.MilliValue()),
		claims.Amount(typeMemory, (r.Memory.Value()+mebibyte-1)/mebibyte),
	}
	if r.GPUs > 0 {
		amounts = append(amounts, claims.Amount(typeGPUs, int64(r.GPUs)))
	}
	return amounts
}

// within returns the resources, limited to the held amounts.
func within(r computev1alpha1.Resources, held []quotav1alpha1.ResourceRequest) computev1alpha1.Resources {
	limit := computev1alpha1.Resources{GPUs: r.GPUs} // they cannot be changed
	for _, request := range held {
		switch request.ResourceType {
		case typeVCPUs:
			limit.VCPUs = *resource.NewMilliQuantity(request.Amount, resource.DecimalSI)
		case typeMemory:
			limit.Memory = *resource.NewQuantity(request.Amount*mebibyte, resource.BinarySI)
		}
	}
	if limit.VCPUs.Cmp(r.VCPUs) > 0 {
		limit.VCPUs = r.VCPUs
	}
	if limit.Memory.Cmp(r.Memory) > 0 {
		limit.Memory = r.Memory
	}
	return limit
}

// most returns the greater of each of two resources.
func most(a, b computev1alpha1.Resources) computev1alpha1.Resources {
	if b.VCPUs.Cmp(a.VCPUs) > 0 {
		a.VCPUs = b.VCPUs
	}
	if b.Memory.Cmp(a.Memory) > 0 {
		a.Memory = b.Memory
	}
	return a
}
