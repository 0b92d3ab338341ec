package config

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// ResourceQuotas are the settings for the ResourceQuotas of Kubernetes. Bursar does not install the kinds of a feature
// that is off, and ignores their objects if somebody else has installed them.
type ResourceQuotas struct {
	// Allocations serves ResourceQuotaAllocations, the caps on the ResourceQuotas of many namespaces. Default: true.
	Allocations *bool `json:"allocations,omitempty"`
	// Increases serves the QuotaServiceConfigs and QuotaIncreases of openMCP, which make ResourceQuotas. Turn it off
	// where openMCP's own operator serves them. Default: true.
	Increases *bool `json:"increases,omitempty"`
}

func (r *ResourceQuotas) setDefaults() {
	for _, setting := range []**bool{&r.Allocations, &r.Increases} {
		if *setting == nil {
			*setting = new(true)
		}
	}
}

// ServesAllocations reports whether Bursar serves allocations.
func (r *ResourceQuotas) ServesAllocations() bool { return r.Allocations == nil || *r.Allocations }

// ServesIncreases reports whether Bursar serves increases.
func (r *ResourceQuotas) ServesIncreases() bool { return r.Increases == nil || *r.Increases }

// Unserved returns the resources of the features that are off.
func (r *ResourceQuotas) Unserved() []schema.GroupResource {
	var unserved []schema.GroupResource
	if !r.ServesAllocations() {
		for _, resource := range []string{"resourcequotaallocations", "localresourcequotaallocations", "allocationledgers"} {
			unserved = append(unserved, quotav1alpha1.Resource(resource))
		}
	}
	if !r.ServesIncreases() {
		for _, resource := range []string{"quotaserviceconfigs", "quotaincreases"} {
			unserved = append(unserved, openmcpv1alpha1.Resource(resource))
		}
	}
	return unserved
}
