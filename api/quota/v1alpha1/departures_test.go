package v1alpha1_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	claimTemplateSpec = "spec.target.resourceClaimTemplate.spec"
	grantTemplateSpec = "spec.target.resourceGrantTemplate.spec"

	// groupVersionPattern accepts group/version and, for the core group, only a version.
	groupVersionPattern = `^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?v[0-9]+((alpha|beta)[0-9]*)?$`
)

// departure is an intended difference between the contract and the CRDs.
type departure struct {
	kind, path string
	reason     string
	change     func(*schemaField)
}

// departures lists all of them. The first four allow for Bursar's additions to the contract, the next six for a later
// revision of it, the next two are in the API reference for new objects, and all others are stricter.
var departures = []departure{
	{"ClaimCreationPolicy", claimTemplateSpec + ".resourceRef", "Bursar fills in the object", optional},
	{"ClaimCreationPolicy", claimTemplateSpec + ".requests[]", "amount or amountExpression", constrain("celRule", "give either amount or amountExpression")},
	{"ClaimCreationPolicy", claimTemplateSpec + ".requests[].amount", "amountExpression may stand in its place", optional},
	{"ClaimCreationPolicy", "spec.trigger.resource.apiVersion", "core kinds are accepted", constrain("pattern", groupVersionPattern)},
	{"ClaimCreationPolicy", claimTemplateSpec + ".consumerRef", "the parent of the user's control plane may pay", optional},
	{"ResourceClaim", "spec.resourceRef", "a claim may be for no object", optional},
	{"ResourceClaim", "spec", "a claim pays for one object, or for none", constrain("celRule", "spec.resourceRef is immutable: create another claim")},
	{"ResourceRegistration", "spec.consumerTypeRef", "consumerType is its later name", optional},
	{"ResourceRegistration", "spec", "either name of the consumer's kind is given, and stays", constrain("celRule", strings.Join([]string{
		"spec.consumerType is required", "spec.consumerType and spec.consumerTypeRef must be equal: they are two names of one field",
		"spec.consumerType is immutable", "spec.consumerTypeRef is immutable",
	}, "; "))},
	{"ResourceRegistration", "spec.type", "features are on or off", constrain("enum", "Entity|Allocation|Feature")},
	{"ResourceRegistration", "status", "a new registration is pending", constrain("default", pending("False", "RegistrationPending"))},
	{"ResourceGrant", "status", "a new grant is pending", constrain("default", pending("Unknown", "GrantPending"))},
	{"ResourceClaim", "status", "kstatus sees that no decision has been made", constrain("default",
		`{"conditions":[{"lastTransitionTime":"1970-01-01T00:00:00Z","message":"Awaiting capacity evaluation","reason":"PendingEvaluation",`+
			`"status":"False","type":"Granted"}],"observedGeneration":-1}`)},
	{"ClaimCreationPolicy", "status", "kstatus sees that Bursar has not processed it", constrain("default", `{"observedGeneration":-1}`)},
	{"GrantCreationPolicy", "status", "kstatus sees that Bursar has not processed it", constrain("default", `{"observedGeneration":-1}`)},

	{"AllowanceBucket", "spec", "it identifies the bucket", constrain("celRule", "spec is immutable: a bucket is of one consumer and one resource type for good")},

	{"ClaimCreationPolicy", claimTemplateSpec + ".requests", "at least one request", constrain("minItems", "1")},
	{"ClaimCreationPolicy", claimTemplateSpec + ".requests", "each type once", constrain("celRule", "requests must name each resourceType only once")},
	{"ClaimCreationPolicy", claimTemplateSpec + ".requests[].resourceType", "no registration has a longer one", constrain("maxLength", "253")},

	{"GrantCreationPolicy", grantTemplateSpec + ".allowances", "at most 20 allowances", constrain("maxItems", "20")},
	{"GrantCreationPolicy", grantTemplateSpec, "a period has a length", constrain("celRule", "notBefore must be earlier than notAfter")},
	{"GrantCreationPolicy", grantTemplateSpec + ".allowances[]", "a period has a length", constrain("celRule", "notBefore must be earlier than notAfter")},

	{"ResourceClaim", "spec.consumerRef", "a claim charges one consumer", constrain("celRule", "spec.consumerRef is immutable: create another claim")},
	{"ResourceClaim", "spec.resourceRef", "a claim pays for one object", constrain("celRule", "spec.resourceRef is immutable: create another claim")},
	{"ResourceClaim", "spec.requests", "at least one request", constrain("minItems", "1")},
	{"ResourceClaim", "spec.requests", "each type once", constrain("celRule", "requests must name each resourceType only once")},
	{"ResourceClaim", "spec.requests[].resourceType", "no registration has a longer one", constrain("maxLength", "253")},

	{"ResourceGrant", "spec.allowances", "at most 20 allowances", constrain("maxItems", "20")},
	{"ResourceGrant", "spec", "a period has a length", constrain("celRule", "notBefore must be earlier than notAfter")},
	{"ResourceGrant", "spec.allowances[]", "a period has a length", constrain("celRule", "notBefore must be earlier than notAfter")},

	{"ResourceRegistration", "spec.description", "at most 500 characters", constrain("maxLength", "500")},
	{"ResourceRegistration", "spec.consumerTypeRef", "amounts are kept by it", constrain("celRule", "spec.consumerTypeRef is immutable")},
	{"ResourceRegistration", "spec.resourceType", "amounts are kept by it", constrain("celRule", "spec.resourceType is immutable")},
	{"ResourceRegistration", "spec.type", "amounts are kept by it", constrain("celRule", "spec.type is immutable")},
}

// addition is an optional field missing in the contract, with everything under it.
type addition struct {
	kind, path string
}

var additions = []addition{
	{"AllowanceBucket", "status.feature"},
	{"AllowanceBucket", "status.held"},
	{"ClaimCreationPolicy", "status.effective"},
	{"ClaimCreationPolicy", "spec.disabled"},
	{"ClaimCreationPolicy", "spec.trigger.constraints"},
	{"GrantCreationPolicy", "spec.disabled"},
	{"GrantCreationPolicy", "spec.trigger.constraints"},
	{"ResourceRegistration", "spec.consumerType"},
	{"AllowanceBucket", "spec.dimensions"},
	{"ClaimCreationPolicy", "spec.enforcementMode"},
	{"ClaimCreationPolicy", "spec.admission"},
	{"ClaimCreationPolicy", "spec.claims"},
	{"ClaimCreationPolicy", "spec.trigger.operations"},
	{"ClaimCreationPolicy", claimTemplateSpec + ".requests[].amountExpression"},
	{"ClaimCreationPolicy", "status.adoption"},
	{"ClaimCreationPolicy", "status.evaluation"},
	{"AllowanceBucket", "status.display"},
	{"GrantCreationPolicy", "status.gives"},
	{"GrantCreationPolicy", "status.grants"},
	{"ResourceClaim", "status.requested"},
	{"ResourceGrant", "status.gives"},
	{"GrantCreationPolicy", grantTemplateSpec + ".notBefore"},
	{"GrantCreationPolicy", grantTemplateSpec + ".notAfter"},
	{"GrantCreationPolicy", grantTemplateSpec + ".allowances[].notBefore"},
	{"GrantCreationPolicy", grantTemplateSpec + ".allowances[].notAfter"},
	{"ResourceGrant", "spec.notBefore"},
	{"ResourceGrant", "spec.notAfter"},
	{"ResourceGrant", "spec.allowances[].notBefore"},
	{"ResourceGrant", "spec.allowances[].notAfter"},
	{"ResourceRegistration", "spec.dimensions"},
	{"ResourceRegistration", "spec.maxPerConsumer"},
	{"ResourceRegistration", "spec.maxTotal"},
	{"ClaimCreationPolicy", claimTemplateSpec + ".requests[].dimensions"},
	{"GrantCreationPolicy", grantTemplateSpec + ".allowances[].dimensionSelector"},
	{"ResourceClaim", "spec.requests[].dimensions"},
	{"ResourceGrant", "spec.allowances[].dimensionSelector"},
}

func additionCovering(kind, path string) (addition, bool) {
	for _, a := range additions {
		rest, under := strings.CutPrefix(path, a.path)
		if a.kind == kind && under && (rest == "" || strings.ContainsAny(rest[:1], ".[{")) {
			return a, true
		}
	}
	return addition{}, false
}

// applyDepartures changes the contract's fields to the expected fields of the CRDs. A departure without a change is out
// of date.
func applyDepartures(t *testing.T, contract map[string]map[string]schemaField) {
	t.Helper()
	for _, d := range departures {
		field, found := contract[d.kind][d.path]
		if !found {
			t.Errorf("the contract has no field %s of %s to depart from (%s)", d.path, d.kind, d.reason)
			continue
		}
		before := field
		before.Constraints = maps.Clone(field.Constraints)
		d.change(&field)
		if cmp.Equal(before, field) {
			t.Errorf("the contract agrees about %s of %s: it is no departure (%s)", d.path, d.kind, d.reason)
		}
		contract[d.kind][d.path] = field
	}
}

// pending is the status of a new object.
func pending(status, reason string) string {
	return `{"conditions":[{"lastTransitionTime":"1970-01-01T00:00:00Z","message":"Not reconciled yet","reason":"` + reason +
		`","status":"` + status + `","type":"Active"}],"observedGeneration":-1}`
}

func optional(field *schemaField) { field.Required = false }

func constrain(name, value string) func(*schemaField) {
	return func(field *schemaField) { field.Constraints[name] = value }
}
