package quotakinds

import (
	"fmt"
	"io"
	"iter"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// PrintYAML writes objects as YAML documents.
func PrintYAML(w io.Writer, objects iter.Seq[*unstructured.Unstructured]) error {
	isFirst := true
	for object := range objects {
		content, err := yaml.Marshal(object.Object)
		if err != nil {
			return fmt.Errorf("encode %s %s: %w", object.GetKind(), Name(object), err)
		}
		if !isFirst {
			content = append([]byte("---\n"), content...)
		}
		if _, err := w.Write(content); err != nil {
			return err
		}
		isFirst = false
	}
	return nil
}
