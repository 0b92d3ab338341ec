// Package crds carries the CustomResourceDefinitions of Bursar's kinds, as YAML for kubectl and embedded for the
// server. The YAML comes from the types in api.
package crds

import (
	"embed"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// Version is the version of the CRDs. A release raises it to remove a field or to give one another meaning, not to add
// fields.
const Version = 1

//go:embed *.yaml
var files embed.FS

// All returns every CustomResourceDefinition, ordered by file name. The caller owns the objects. An error means a
// mistake in the build: a file without exactly one definition, or with unknown fields.
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
