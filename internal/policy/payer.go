package policy

import (
	"fmt"
	"regexp"
	"strings"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// objectPaths matches the fields of the object in a template.
var objectPaths = regexp.MustCompile(`(?:\.|\b)(?:trigger|object)((?:\.\w+)*)`)

// actions matches double braces and their content.
var actions = regexp.MustCompile(`\{\{(?s:.*?)\}\}`)

// ownNamespace is the only field of an object that its author cannot choose freely.
const ownNamespace = ".metadata.namespace"

// PayerFromObject warns of each field of the consumer reference taken from the object. The author of such a field
// chooses the consumer.
func PayerFromObject(policy *quotav1alpha1.ClaimCreationPolicy) []string {
	ref := policy.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef
	var warnings []string
	for _, each := range []struct{ name, source string }{
		{"apiGroup", ref.APIGroup}, {"kind", ref.Kind}, {"name", ref.Name}, {"namespace", ref.Namespace},
	} {
		if !strings.Contains(each.source, "{{") {
			continue
		}
		inBraces := strings.Join(actions.FindAllString(each.source, -1), " ")
		for _, found := range objectPaths.FindAllStringSubmatch(inBraces, -1) {
			if found[1] == ownNamespace {
				continue
			}
			warnings = append(warnings, fmt.Sprintf("spec.target.resourceClaimTemplate.spec.consumerRef.%s: everyone who may write %s of the object chooses the paying consumer; "+
				"take the consumer from the namespace (.namespaceObject or .trigger%s), unless only trusted users may write it",
				each.name, found[0], ownNamespace))
			break
		}
	}
	return warnings
}
