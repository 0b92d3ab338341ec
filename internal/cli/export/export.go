// Package export writes the configuration of quota as files for a repository, or for another cluster. Only commands
// import it.
package export

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/bursar/bursar/internal/cli/quotakinds"
	"github.com/bursar/bursar/internal/usage"
)

// Options choose the objects to read.
type Options struct {
	// Discovery and Dynamic reach the API server with the rights of the caller.
	Discovery discovery.DiscoveryInterface
	Dynamic   dynamic.Interface
	// WithNamespaces adds the namespaces of the objects, with their labels and annotations.
	WithNamespaces bool
}

// Set are the objects in the form of a person's declarations, by resource. Objects come before those that refer to
// them.
type Set struct {
	kinds     []quotakinds.Kind
	resources []string
	objects   map[string][]*unstructured.Unstructured
}

// Read reads all declarations by people, and what bursar import made beside them: consumers, roles, and the protection
// of limits. It leaves out objects made by policies or derived by Bursar.
func Read(ctx context.Context, o Options) (*Set, error) {
	kinds, err := quotakinds.Find(o.Discovery)
	if err != nil {
		return nil, err
	}
	imported, err := quotakinds.FindImported(o.Discovery)
	if err != nil {
		return nil, err
	}
	set := &Set{kinds: slices.Concat(quotakinds.ImportedKinds(), kinds), objects: map[string][]*unstructured.Unstructured{}}
	for _, kind := range slices.Concat(imported, quotakinds.WithRoles(kinds, quotakinds.Declared)) {
		_, err := kind.Each(ctx, o.Dynamic, "", func(object *unstructured.Unstructured) error {
			if !quotakinds.IsFromPolicy(object) && object.GetDeletionTimestamp() == nil {
				set.add(kind.String(), quotakinds.Declaration(object))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if o.WithNamespaces {
		return set, set.addNamespaces(ctx, o.Dynamic)
	}
	return set, nil
}

func (s *Set) add(resource string, object *unstructured.Unstructured) {
	if !slices.Contains(s.resources, resource) {
		s.resources = append(s.resources, resource)
	}
	s.objects[resource] = append(s.objects[resource], object)
}

// addNamespaces adds the namespaces of the objects, before everything else.
func (s *Set) addNamespaces(ctx context.Context, api dynamic.Interface) error {
	var names []string
	for object := range s.all {
		if namespace := object.GetNamespace(); namespace != "" && !slices.Contains(names, namespace) {
			names = append(names, namespace)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		namespace, err := api.Resource(quotakinds.Namespaces.GroupVersionResource).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue // deleted meanwhile
		}
		if err != nil {
			return fmt.Errorf("read namespace %s: %w", name, err)
		}
		s.add(quotakinds.Namespaces.Resource, quotakinds.DeclaredNamespace(namespace))
	}
	if n := len(s.resources); n > 0 && s.resources[n-1] == quotakinds.Namespaces.Resource {
		s.resources = slices.Insert(s.resources[:n-1], 0, quotakinds.Namespaces.Resource)
	}
	return nil
}

// all yields the objects in their order.
func (s *Set) all(yield func(*unstructured.Unstructured) bool) {
	for _, resource := range s.resources {
		for _, object := range s.objects[resource] {
			if !yield(object) {
				return
			}
		}
	}
}

// Print writes the objects as YAML documents, or as a List in JSON for [usage.FormatJSON].
func (s *Set) Print(w io.Writer, format usage.Format) error {
	if format == usage.FormatJSON {
		items := []any{}
		for object := range s.all {
			items = append(items, object.Object)
		}
		return usage.Encode(w, map[string]any{"apiVersion": "v1", "kind": "List", "items": items}, format)
	}
	return quotakinds.PrintYAML(w, s.all)
}

// fileSuffix ends the names of files with the objects of a resource.
const fileSuffix = ".yaml"

// WriteTo writes a file for each resource into a directory, such as resourcegrants.quota.miloapis.com.yaml. It removes
// those of an earlier export without objects now, and returns the names of the written files.
func (s *Set) WriteTo(dir string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("make the directory for the export: %w", err)
	}
	var names []string
	for _, resource := range s.resources {
		name := resource + fileSuffix
		file, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("write the export: %w", err)
		}
		err = quotakinds.PrintYAML(file, slices.Values(s.objects[resource]))
		if errClose := file.Close(); err == nil {
			err = errClose
		}
		if err != nil {
			return nil, fmt.Errorf("write the export: %w", err)
		}
		names = append(names, name)
	}
	for _, kind := range s.kinds {
		if name := kind.String() + fileSuffix; !slices.Contains(names, name) {
			if err := os.Remove(filepath.Join(dir, name)); err != nil && !os.IsNotExist(err) {
				return nil, fmt.Errorf("remove the file of an earlier export: %w", err)
			}
		}
	}
	return names, nil
}

// Count returns the number of objects.
func (s *Set) Count() int {
	count := 0
	for range s.all {
		count++
	}
	return count
}
