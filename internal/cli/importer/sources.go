package importer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/quotakinds"
)

// reading is the content of a former system.
type reading struct {
	limits []Limit
	// objects are objects of Bursar's own kinds, to write as they are.
	objects []*unstructured.Unstructured
	// made are grants made by policies of the former system.
	made  []*quotav1alpha1.ResourceGrant
	notes []Note
	// exists names the objects of the former system with limits.
	exists map[string]bool
	// objectCount is how many objects of the former system there are.
	objectCount int
}

func (r *reading) note(what, why string) { r.notes = append(r.notes, Note{what, why}) }

// found records an object of the former system, and returns its name.
func (r *reading) found(kind, namespace, name string) string {
	from := objectRef(kind, namespace, name)
	if r.exists == nil {
		r.exists = map[string]bool{}
	}
	r.exists[from] = true
	return from
}

// cluster is a cluster: that of the former system, or the target.
type cluster struct {
	api             dynamic.Interface
	systemNamespace string
	// isTarget reports whether the import also writes to this cluster.
	isTarget bool
	// namespaces are all namespaces, sorted by name.
	namespaces []corev1.Namespace
}

// sources read the former systems.
var sources = map[string]func(context.Context, *cluster) (*reading, error){
	"resourcequota":             readResourceQuotas,
	"clusterresourcequota":      readClusterResourceQuotas,
	"hierarchicalresourcequota": readHierarchicalResourceQuotas,
	"capsule":                   readCapsule,
	"milo":                      readMilo,
	"openmcp":                   readOpenMCP,
}

// Sources returns the names of the former systems.
func Sources() []string { return sortedKeys(sources) }

// readAll reads the objects of a resource.
func readAll[T any](ctx context.Context, c *cluster, resource schema.GroupVersionResource) ([]T, error) {
	var all []T
	_, err := quotakinds.Each(ctx, c.api, resource, "", func(object *unstructured.Unstructured) error {
		content, err := json.Marshal(object.Object)
		if err != nil {
			return err
		}
		var item T
		if err := json.Unmarshal(content, &item); err != nil {
			return fmt.Errorf("decode %s %s: %w", object.GetKind(), quotakinds.Name(object), err)
		}
		all = append(all, item)
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil, &absentError{resource}
	}
	return all, err
}

// absentError reports a resource that the server lacks.
type absentError struct{ resource schema.GroupVersionResource }

// Error implements error.
func (e *absentError) Error() string {
	return fmt.Sprintf("the server has no %s in version %s: there is nothing to import", e.resource.GroupResource(), e.resource.Version)
}

// optional is readAll for a resource that the server may lack.
func optional[T any](ctx context.Context, c *cluster, resource schema.GroupVersionResource) ([]T, error) {
	all, err := readAll[T](ctx, c, resource)
	if absent := (*absentError)(nil); errors.As(err, &absent) {
		return nil, nil
	}
	return all, err
}

// readNamespaces reads all namespaces.
func (c *cluster) readNamespaces(ctx context.Context) error {
	all, err := readAll[corev1.Namespace](ctx, c, corev1.SchemeGroupVersion.WithResource("namespaces"))
	slices.SortFunc(all, func(a, b corev1.Namespace) int { return cmp.Compare(a.Name, b.Name) })
	c.namespaces = all
	return err
}
