// Package crds carries the CustomResourceDefinitions of Bursar's kinds, as YAML for kubectl and
// embedded for the server. The YAML is generated from the types in api.
package crds

import (
	"embed"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// Version numbers what the CRDs are. A release that takes a field away, or gives one another meaning, raises it; one that
// only adds fields need not.
const Version = 1

// VersionAnnotation says on an installed CRD which [Version] it is of.
const VersionAnnotation = "quota.miloapis.com/crd-version"

//go:embed *.yaml
var files embed.FS

// All returns every CustomResourceDefinition, ordered by file name. The objects are the caller's
// own. An error means that a file does not hold exactly one definition without unknown fields,
// which is a mistake in the build.
func All() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, fmt.Errorf("list the embedded definitions: %w", err)
	}
	definitions := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(entries))
	for _, entry := range entries {
		content, err := files.ReadFile(entry.Name())
		if err != nil {
			return nil, fmt.Errorf("read the embedded definition %s: %w", entry.Name(), err)
		}
		definition, err := decode(content)
		if err != nil {
			return nil, fmt.Errorf("decode the definition %s: %w", entry.Name(), err)
		}
		definitions = append(definitions, definition)
	}
	return definitions, nil
}

func decode(content []byte) (*apiextensionsv1.CustomResourceDefinition, error) {
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(content, definition); err != nil {
		return nil, err
	}
	if definition.Kind != "CustomResourceDefinition" || definition.APIVersion != apiextensionsv1.SchemeGroupVersion.String() {
		return nil, fmt.Errorf("it is a %s of %s", definition.Kind, definition.APIVersion)
	}
	return definition, nil
}
