package validate_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/validate"
)

func TestRegistration(t *testing.T) {
	type registration = quotav1alpha1.ResourceRegistration
	registeredBy := map[string]string{"taken": "older", "own": "projects"}
	rules := func(old, new *registration) field.ErrorList {
		return validate.Registration(old, new, registeredBy[new.Spec.ResourceType])
	}
	manyKinds := func(count int) []quotav1alpha1.ClaimingResource {
		var kinds []quotav1alpha1.ClaimingResource
		for i := range count {
			kinds = append(kinds, quotav1alpha1.ClaimingResource{Kind: "Kind" + strings.Repeat("x", i)})
		}
		return kinds
	}
	manyKeys := func(count, bytes int) []string {
		var keys []string
		for i := range count {
			keys = append(keys, string(rune('a'+i))+strings.Repeat("k", bytes-1))
		}
		return keys
	}
	checkRules(t, sampleRegistration, rules, map[string]ruleCase[registration]{
		"Sample": {
			reason: "a complete registration is valid",
			change: asIs[registration],
		},
		"Limits": {
			reason: "what is exactly as long as allowed is valid, counted in characters where the schema does",
			change: func(r *registration) {
				r.Spec.ResourceType = strings.Repeat("r", 253)
				r.Spec.BaseUnit = strings.Repeat("ü", 50)
				r.Spec.DisplayUnit = strings.Repeat("ü", 50)
				r.Spec.Description = strings.Repeat("ü", 500)
				r.Spec.ClaimingResources = manyKinds(20)
				r.Spec.Dimensions = manyKeys(16, 317)
			},
		},
		"EverythingWrong": {
			reason: "everything that is wrong is told at once",
			change: func(r *registration) {
				r.Spec = quotav1alpha1.ResourceRegistrationSpec{
					ConsumerTypeRef:   quotav1alpha1.ConsumerTypeRef{APIGroup: "Example"},
					Description:       strings.Repeat("d", 501),
					ClaimingResources: []quotav1alpha1.ClaimingResource{{Kind: "Pod"}, {Kind: "Pod"}, {Kind: "pod/"}},
				}
			},
			want: []string{
				`spec.resourceType: Required value: name the resource type, such as resourcemanager.miloapis.com/projects`,
				`spec.type: Unsupported value: "": supported values: "Entity", "Allocation", "Feature"`,
				`spec.baseUnit: Required value: name the unit in the singular, such as byte`,
				`spec.displayUnit: Required value: name the unit in the singular, such as byte`,
				`spec.unitConversionFactor: Invalid value: 0: must be at least 1: it is the number of base units in a display unit`,
				`spec.consumerTypeRef.apiGroup: Invalid value: "Example": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
				`spec.consumerTypeRef.kind: Required value: name the kind of the object, such as Project`,
				`spec.description: Too long: may not be more than 500 characters`,
				`spec.claimingResources[1]: Duplicate value: {"kind":"Pod"}: duplicate claiming resource Pod`,
				`spec.claimingResources[2].kind: Invalid value: "pod/": must be made of letters, digits and dashes, begin with a letter and not end in a dash`,
			},
		},
		"TooLong": {
			reason: "what is too long is not repeated",
			change: func(r *registration) {
				r.Spec.ResourceType = strings.Repeat("r", 254)
				r.Spec.BaseUnit = strings.Repeat("u", 51)
				r.Spec.ConsumerTypeRef = quotav1alpha1.ConsumerTypeRef{APIGroup: strings.Repeat("g", 254), Kind: strings.Repeat("K", 64)}
				r.Spec.ClaimingResources = manyKinds(21)
			},
			want: []string{
				`spec.resourceType: Too long: may not be more than 253 bytes`,
				`spec.baseUnit: Too long: may not be more than 50 characters`,
				`spec.consumerTypeRef.apiGroup: Too long: may not be more than 253 bytes`,
				`spec.consumerTypeRef.kind: Too long: may not be more than 63 bytes`,
				`spec.claimingResources: Too many: 21: must have at most 20 items`,
			},
		},
		"SpaceInType": {
			reason: "a resource type has to be legible in a list of them",
			change: func(r *registration) { r.Spec.ResourceType = "my projects" },
			want:   []string{`spec.resourceType: Invalid value: "my projects": must be made of printable characters without spaces`},
		},
		"InvisibleType": {
			reason: "NUL would make two types look the same",
			change: func(r *registration) { r.Spec.ResourceType = "projects\x00" },
			want:   []string{`spec.resourceType: Invalid value: "projects\x00": must be made of printable characters without spaces`},
		},
		"Dimensions": {
			reason: "a dimension is a key that the ledger takes, once",
			change: func(r *registration) {
				r.Spec.Dimensions = []string{"location", "", "location", "a\x00b", strings.Repeat("k", 318)}
			},
			want: []string{
				`spec.dimensions[1]: Invalid value: a dimension key is empty`,
				`spec.dimensions[2]: Duplicate value: "location"`,
				`spec.dimensions[3]: Invalid value: dimension key "a\x00b" is not UTF-8 or has a NUL`,
				`spec.dimensions[4]: Invalid value: a dimension key is 318 bytes long, at most 317 are allowed`,
			},
		},
		"TooManyDimensions": {
			reason: "16 are the most",
			change: func(r *registration) { r.Spec.Dimensions = manyKeys(17, 1) },
			want:   []string{`spec.dimensions: Too many: 17: must have at most 16 items`},
		},
		"AddDimension": {
			reason: "dimensions may be added",
			before: func(r *registration) { r.Spec.Dimensions = []string{"location"} },
			change: func(r *registration) { r.Spec.Dimensions = []string{"tier", "location"} },
		},
		"RemoveDimension": {
			reason: "and removed",
			before: func(r *registration) { r.Spec.Dimensions = []string{"location"} },
			change: func(r *registration) { r.Spec.Dimensions = nil },
		},
		"AddBadDimension": {
			reason: "what is added is checked",
			before: func(r *registration) { r.Spec.Dimensions = []string{"location"} },
			change: func(r *registration) { r.Spec.Dimensions = []string{"location", ""} },
			want:   []string{`spec.dimensions[1]: Invalid value: a dimension key is empty`},
		},
		"DuplicateType": {
			reason: "a resource type is registered once",
			change: func(r *registration) { r.Spec.ResourceType = "taken" },
			want:   []string{`spec.resourceType: Duplicate value: "taken": resource type "taken" is already registered by ResourceRegistration older`},
		},
		"SameName": {
			reason: "that the name is taken is for the API server to say",
			change: func(r *registration) { r.Spec.ResourceType = "own" },
		},
		"Maintained": {
			reason: "description and claimingResources may change, also of a registration that would not be accepted any more",
			before: func(r *registration) {
				r.Spec.ResourceType, r.Spec.BaseUnit, r.Spec.Dimensions = "taken", "", []string{""}
			},
			change: func(r *registration) { r.Spec.Description, r.Spec.ClaimingResources = "better", nil },
		},
		"LongAdvice": {
			reason: "it ends every message about the resource type",
			before: asIs[registration],
			change: func(r *registration) {
				r.Annotations = map[string]string{quotav1alpha1.AnnotationExceededAdvice: strings.Repeat("a", quotav1alpha1.ExceededAdviceMax+1)}
			},
			want: []string{`metadata.annotations[quota.miloapis.com/exceeded-advice]: Too long: may not be more than 500 bytes`},
		},
		"LongName": {
			reason: "it is a name, and each quota of the resource type repeats it",
			before: asIs[registration],
			change: func(r *registration) {
				r.Annotations = map[string]string{quotav1alpha1.AnnotationDisplayName: strings.Repeat("ä", quotav1alpha1.DisplayNameMax+1)}
			},
			want: []string{`metadata.annotations[kubernetes.io/display-name]: Too long: may not be more than 80 characters`},
		},
		"LongestName": {
			reason: "characters count, and not bytes",
			before: asIs[registration],
			change: func(r *registration) {
				r.Annotations = map[string]string{quotav1alpha1.AnnotationDisplayName: strings.Repeat("ä", quotav1alpha1.DisplayNameMax)}
			},
		},
		"MisspeltAdvice": {
			reason: "nobody is called that",
			before: asIs[registration],
			change: func(r *registration) {
				r.Annotations = map[string]string{quotav1alpha1.AnnotationExceededAdvice: "Ask {{nam}}."}
			},
			want: []string{`metadata.annotations[quota.miloapis.com/exceeded-advice]: Invalid value: "Ask {{nam}}.": there is no placeholder {{nam}}: {{name}} stands for the name of the consumer`},
		},
		"Threshold": {
			reason: "it is a part of a limit",
			before: asIs[registration],
			change: func(r *registration) {
				r.Annotations = map[string]string{quotav1alpha1.AnnotationAlertThreshold: "0.8"}
			},
			want: []string{`metadata.annotations[quota.miloapis.com/alert-threshold-percent]: Invalid value: "0.8": must be a whole number of percent from 1 to 100, such as 80`},
		},
		"FormerThreshold": {
			reason: "what was there before there was a rule can be maintained",
			before: func(r *registration) {
				r.Annotations = map[string]string{quotav1alpha1.AnnotationAlertThreshold: "0.8"}
			},
			change: func(r *registration) { r.Spec.Description = "better" },
		},
		"Units": {
			reason: "how amounts are displayed may be corrected at any time",
			before: asIs[registration],
			change: func(r *registration) { r.Spec.DisplayUnit, r.Spec.UnitConversionFactor = "Gbit", 8 },
		},
		"BadUnits": {
			reason: "what is changed is checked",
			before: asIs[registration],
			change: func(r *registration) {
				r.Spec.BaseUnit, r.Spec.DisplayUnit, r.Spec.UnitConversionFactor = "", strings.Repeat("u", 51), 0
			},
			want: []string{
				`spec.baseUnit: Required value: name the unit in the singular, such as byte`,
				`spec.displayUnit: Too long: may not be more than 50 characters`,
				`spec.unitConversionFactor: Invalid value: 0: must be at least 1: it is the number of base units in a display unit`,
			},
		},
		"ImmutableFields": {
			reason: "stored amounts mean what they meant",
			before: asIs[registration],
			change: func(r *registration) {
				r.Spec.ResourceType = "taken"
				r.Spec.Type = quotav1alpha1.RegistrationTypeAllocation
				r.Spec.ConsumerTypeRef.Kind = "Team"
				r.Spec.Description = strings.Repeat("d", 501)
			},
			want: []string{
				`spec.resourceType: Invalid value: field is immutable`,
				`spec.type: Invalid value: field is immutable`,
				`spec.consumerType: Invalid value: field is immutable`,
				`spec.description: Too long: may not be more than 500 characters`,
			},
		},
	})
}
