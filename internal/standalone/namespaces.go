package standalone

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bursar/bursar/internal/naming"
)

const namespaces = "a namespace has lower-case letters, digits and '-' only, 63 at most, and no '-' at its ends"

// ParseConsumerNamespaces reads what --consumer-namespace is given: KIND.GROUP=TEMPLATE each.
func ParseConsumerNamespaces(values []string) (map[schema.GroupKind]string, error) {
	templates := map[schema.GroupKind]string{}
	for _, value := range values {
		name, template, found := strings.Cut(value, "=")
		kind := schema.ParseGroupKind(name)
		if !found || kind.Kind == "" || template == "" {
			return nil, fmt.Errorf("--consumer-namespace: %q is not of the form KIND.GROUP=TEMPLATE, such as Organization.resourcemanager.example.com=organization-%s", value, naming.ConsumerName)
		}
		if _, twice := templates[kind]; twice {
			return nil, fmt.Errorf("--consumer-namespace: %s is given twice", kind)
		}
		templates[kind] = template
	}
	return templates, nil
}

// validateNamespaces makes sure that these can be names of namespaces.
func validateNamespaces(system string, consumers map[schema.GroupKind]string) error {
	if system != "" && len(validation.IsDNS1123Label(system)) > 0 {
		return fmt.Errorf("--system-namespace: %q cannot be the name of a namespace: %s", system, namespaces)
	}
	for kind, template := range consumers {
		if name := naming.ConsumerNamespace(template, "a"); len(validation.IsDNS1123Label(name)) > 0 {
			return fmt.Errorf("--consumer-namespace: %s=%s does not make the name of a namespace: %s", kind, template, namespaces)
		}
	}
	return nil
}
