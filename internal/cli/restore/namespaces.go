package restore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/bursar/bursar/internal/cli/quotakinds"
)

// isEmpty is the reason to leave out namespaces.
const isEmpty = "no other object of the backup is in them; make them with their objects"

// mark is a label or annotation of a namespace that differs from the backup.
type mark struct {
	namespace string
	// field is labels or annotations.
	field, key string
	// before is the value in the backup, and now the value here. Nil, there is none.
	before, now *string
}

// checkNamespaces makes sure that the namespaces of the objects exist, or that the restore may create them. It finds
// the namespaces of the backup that may be selected otherwise here.
func (r *restorer) checkNamespaces(ctx context.Context) error {
	needed := map[string]bool{}
	for _, kind := range r.order {
		if err := r.each(kind, func(object *unstructured.Unstructured) error { needed[object.GetNamespace()] = true; return nil }); err != nil {
			return err
		}
	}
	delete(needed, "")
	here := map[string]*unstructured.Unstructured{}
	_, err := quotakinds.Namespaces.Each(ctx, r.caller, "", func(namespace *unstructured.Unstructured) error {
		here[namespace.GetName()] = quotakinds.DeclaredNamespace(namespace)
		delete(needed, namespace.GetName())
		return nil
	})
	if err != nil {
		return err
	}
	for name := range needed {
		r.report.missingNamespaces = append(r.report.missingNamespaces, name)
	}
	slices.Sort(r.report.missingNamespaces)
	if len(r.report.missingNamespaces) > 0 && !r.CreateNamespaces {
		return fmt.Errorf("the server lacks namespaces of the backup (%d): %s; create them, or give --create-namespaces",
			len(needed), some(r.report.missingNamespaces))
	}
	return r.compareNamespaces(here)
}

// compareNamespaces reports the labels and annotations of namespaces that differ from the backup, if a declaration of
// the backup has their keys: quota may select the namespaces by them.
func (r *restorer) compareNamespaces(here map[string]*unstructured.Unstructured) error {
	var different []mark
	err := r.each(quotakinds.Namespaces, func(namespace *unstructured.Unstructured) error {
		now, exists := here[namespace.GetName()]
		switch {
		case !exists && slices.Contains(r.report.missingNamespaces, namespace.GetName()):
			return nil // createNamespaces counts it
		case !exists:
			r.report.leaveOut(quotakinds.Namespaces, isEmpty)
			return nil
		}
		r.report.count(quotakinds.Namespaces, present)
		before := quotakinds.DeclaredNamespace(namespace)
		different = appendDifferent(different, namespace.GetName(), "labels", before.GetLabels(), now.GetLabels())
		different = appendDifferent(different, namespace.GetName(), "annotations", before.GetAnnotations(), now.GetAnnotations())
		return nil
	})
	if err != nil || len(different) == 0 {
		return err
	}
	used := map[string]bool{}
	for _, m := range different {
		used[m.key] = false
	}
	err = r.findUsed(used)
	r.report.marks = slices.DeleteFunc(different, func(m mark) bool { return !used[m.key] })
	sortMarks(r.report.marks)
	return err
}

func sortMarks(marks []mark) {
	slices.SortFunc(marks, func(a, b mark) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.field, b.field), cmp.Compare(a.key, b.key))
	})
}

func appendDifferent(different []mark, namespace, field string, before, now map[string]string) []mark {
	keys := map[string]string{}
	maps.Copy(keys, before)
	maps.Copy(keys, now)
	for key := range keys {
		m := mark{namespace, field, key, valueOf(before, key), valueOf(now, key)}
		if !ptr.Equal(m.before, m.now) {
			different = append(different, m)
		}
	}
	return different
}

// valueOf returns the value of a key, or nil if there is none.
func valueOf(values map[string]string, key string) *string {
	if value, isSet := values[key]; isSet {
		return &value
	}
	return nil
}

// findUsed sets the keys that occur in a declaration of the backup to true: in a selector, or in an expression.
// Registrations and grants select no namespaces.
func (r *restorer) findUsed(keys map[string]bool) error {
	for _, kind := range r.declared() {
		if name := kind.String(); name == registrations || name == grants {
			continue
		}
		err := r.each(kind, func(object *unstructured.Unstructured) error {
			text, err := json.Marshal(object.Object["spec"])
			if err != nil {
				return fmt.Errorf("encode %s %s: %w", kind.Kind, quotakinds.Name(object), err)
			}
			for key, isUsed := range keys {
				keys[key] = isUsed || strings.Contains(string(text), key)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// createNamespaces creates the missing namespaces of the objects, with the labels and annotations of the backup.
func (r *restorer) createNamespaces(ctx context.Context) error {
	missing := map[string]*unstructured.Unstructured{}
	for _, name := range r.report.missingNamespaces {
		missing[name] = &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": corev1.SchemeGroupVersion.String(), "kind": quotakinds.Namespaces.Kind, "metadata": map[string]any{"name": name},
		}}
	}
	err := r.each(quotakinds.Namespaces, func(namespace *unstructured.Unstructured) error {
		if _, isMissing := missing[namespace.GetName()]; isMissing {
			missing[namespace.GetName()] = quotakinds.DeclaredNamespace(namespace)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range r.report.missingNamespaces {
		if !r.DryRun {
			_, err := r.caller.Resource(quotakinds.Namespaces.GroupVersionResource).Create(ctx, missing[name], metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("create namespace %s: %w", name, err)
			}
		}
		r.report.count(quotakinds.Namespaces, restored)
	}
	return nil
}
