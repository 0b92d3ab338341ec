package why

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// ObjectsIn returns the objects in a text, or none if the text has other content.
func ObjectsIn(content []byte) []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for _, document := range strings.Split("\n"+string(content), "\n---") {
		object := map[string]any{}
		inJSON, err := yaml.YAMLToJSON([]byte(document))
		if err == nil {
			err = utiljson.Unmarshal(inJSON, &object) // integers stay integers, as policies see them
		}
		if err != nil || object["kind"] == nil || object["apiVersion"] == nil {
			continue
		}
		objects = append(objects, &unstructured.Unstructured{Object: object})
	}
	return objects
}
