package usage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// UnknownError means that a filter names a missing consumer, resource type or namespace.
type UnknownError struct{ message string }

func (e *UnknownError) Error() string { return e.message }

// check returns an [UnknownError] if the filter names a missing consumer, resource type or namespace.
func (r *reader) check(ctx context.Context, claims []quotav1alpha1.ResourceClaim) error {
	if err := r.checkNamespace(ctx); err != nil {
		return err
	}
	consumers, types, kinds := map[string]bool{}, map[string]bool{}, map[string]bool{}
	knowsConsumer, knowsType := false, false
	for _, item := range r.all {
		consumers[strings.ToLower(item.ConsumerRef.Kind)+"/"+item.ConsumerRef.Name] = true
		kinds[item.ConsumerRef.Kind] = true
		types[item.ResourceType] = true
		knowsConsumer = knowsConsumer || r.filter.matchesConsumer(item.ConsumerRef)
		knowsType = knowsType || r.filter.matchesType(item.ResourceType)
	}
	// Claims may be in other namespaces than their quota.
	knowsConsumer = knowsConsumer || r.filter.WithClaims && len(claims) > 0
	if r.filter.Consumer != "" && !knowsConsumer {
		return &UnknownError{fmt.Sprintf("no quota is granted to, or used by, a consumer %q%s%s", r.filter.Consumer, r.where(),
			suggest(strings.ToLower(r.filter.Consumer), slices.Sorted(maps.Keys(consumers)), "known kinds are "+strings.Join(slices.Sorted(maps.Keys(kinds)), ", ")))}
	}
	if r.filter.ResourceType != "" && !knowsType {
		// A type may be registered without any quota.
		var list quotav1alpha1.ResourceRegistrationList
		if err := r.api.List(ctx, &list); err == nil {
			for i := range list.Items {
				types[list.Items[i].Spec.ResourceType] = true
				knowsType = knowsType || r.filter.matchesType(list.Items[i].Spec.ResourceType)
			}
		}
		if !knowsType {
			known := slices.Sorted(maps.Keys(types))
			return &UnknownError{fmt.Sprintf("there is no resource type %q%s%s", r.filter.ResourceType, r.where(),
				suggest(r.filter.ResourceType, known, "known types are "+strings.Join(head(known), ", ")))}
		}
	}
	return nil
}

func (r *reader) where() string {
	if r.filter.Namespace == "" {
		return ""
	}
	return " in namespace " + r.filter.Namespace
}

// checkNamespace returns an [UnknownError] if the namespace does not exist, as far as the user may know.
func (r *reader) checkNamespace(ctx context.Context) error {
	if r.filter.Namespace == "" {
		return nil
	}
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.api.Get(ctx, client.ObjectKey{Name: r.filter.Namespace}, namespace); !apierrors.IsNotFound(err) {
		return nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	var names []string
	if err := r.api.List(ctx, list); err == nil {
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
	}
	return &UnknownError{fmt.Sprintf("there is no namespace %q%s", r.filter.Namespace, suggest(r.filter.Namespace, names, ""))}
}

const (
	// suggestionsMax bounds how many names are suggested, and namedMax how many are listed.
	suggestionsMax = 3
	namedMax       = 10
)

func head(names []string) []string { return names[:min(len(names), namedMax)] }

// suggest ends a sentence about an unknown name: with similar known names, or else with otherwise.
func suggest(name string, known []string, otherwise string) string {
	var close []string
	for _, candidate := range known {
		for _, as := range []string{candidate, shortType(candidate)} {
			if distance(name, as) <= max(1, len(name)/4) || len(name) > 2 && strings.HasPrefix(as, name) {
				close = append(close, candidate)
				break
			}
		}
	}
	switch {
	case len(close) > 0:
		return "; did you mean " + strings.Join(close[:min(len(close), suggestionsMax)], " or ") + "?"
	case otherwise != "" && len(known) > 0:
		return "; " + otherwise
	default:
		return ""
	}
}

// distance returns how many bytes have to be inserted, deleted, replaced or swapped with their neighbour to turn a into
// b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
