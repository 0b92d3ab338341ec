package request

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/consumername"
	"github.com/bursar/bursar/internal/usage"
)

// shown are the EffectiveResourceGrants of a namespace.
type shown struct {
	namespace string
	grants    []quotav1alpha1.EffectiveResourceGrant
	// isForbidden reports whether the user may not read them.
	isForbidden bool
}

// readShown reads the EffectiveResourceGrants of a namespace, or none if the user may not read them.
func readShown(ctx context.Context, api client.Client, namespace string) (*shown, error) {
	var list quotav1alpha1.EffectiveResourceGrantList
	err := api.List(ctx, &list, client.InNamespace(namespace))
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("list the EffectiveResourceGrants in namespace %s: %w", namespace, err)
	}
	return &shown{namespace: namespace, grants: list.Items, isForbidden: err != nil}, nil
}

// consumers returns the consumers, each once.
func (s *shown) consumers() []quotav1alpha1.ConsumerRef {
	var all []quotav1alpha1.ConsumerRef
	for i := range s.grants {
		if ref := s.grants[i].Spec.ConsumerRef; !slices.Contains(all, ref) {
			all = append(all, ref)
		}
	}
	return all
}

// types returns the resource types of a consumer.
func (s *shown) types(consumer quotav1alpha1.ConsumerRef) []string {
	var all []string
	for i := range s.grants {
		if spec := &s.grants[i].Spec; spec.ConsumerRef == consumer {
			all = append(all, spec.ResourceType)
		}
	}
	return all
}

// Units returns the display units of the resource types in a namespace, as far as the user may see its quota.
func Units(ctx context.Context, api client.Client, namespace string) (map[string]usage.Unit, error) {
	s, err := readShown(ctx, api, namespace)
	if err != nil {
		return nil, err
	}
	return s.units(), nil
}

func (s *shown) units() map[string]usage.Unit {
	units := map[string]usage.Unit{}
	for i := range s.grants {
		if unit, isKnown := usage.UnitOf(usage.ItemOf(&s.grants[i])); isKnown {
			units[s.grants[i].Spec.ResourceType] = unit
		}
	}
	return units
}

// consumer returns the consumer in --for. Without a name it is the only one.
func (s *shown) consumer(named string) (quotav1alpha1.ConsumerRef, error) {
	all := s.consumers()
	if named == "" {
		if len(all) == 1 {
			return all[0], nil
		}
		return quotav1alpha1.ConsumerRef{}, invalid("", "name the consumer with --for KIND/NAME: %s", s.candidates(all))
	}
	name, err := consumername.Parse(named)
	if err != nil {
		return quotav1alpha1.ConsumerRef{}, invalid("--for", "%s", err)
	}
	var matching []quotav1alpha1.ConsumerRef
	for _, ref := range all {
		if name.Matches(ref) {
			matching = append(matching, ref)
		}
	}
	given, isFull := name.Full()
	switch {
	case len(matching) == 1:
		return matching[0], nil
	case len(matching) > 1:
		return given, invalid("--for", "%s names several consumers: choose one of %s", named, names(matching))
	case isFull:
		return given, nil
	default:
		return given, invalid("--for", "%s is not known in namespace %s: %s; name another in full, with its API group, "+
			"such as Organization.resourcemanager.miloapis.com/acme", named, s.namespace, s.candidates(all))
	}
}

// elsewhere returns an error with the other namespaces that show the quota of an unknown consumer. If the user sees
// none, it returns the given error.
func elsewhere(ctx context.Context, api client.Client, s *shown, named string, err error) error {
	name, errName := consumername.Parse(named)
	if errName != nil || slices.ContainsFunc(s.consumers(), name.Matches) {
		return err
	}
	var list quotav1alpha1.EffectiveResourceGrantList
	if api.List(ctx, &list) != nil {
		return err
	}
	var flags []string
	for i := range list.Items {
		flag, isOther := "-n "+list.Items[i].Namespace, list.Items[i].Namespace != s.namespace
		if isOther && name.Matches(list.Items[i].Spec.ConsumerRef) && !slices.Contains(flags, flag) {
			flags = append(flags, flag)
		}
	}
	if len(flags) == 0 {
		return err
	}
	return invalid("--for", "namespace %s does not show the quota of %s: give %s", s.namespace, named, strings.Join(flags, " or "))
}

// candidates returns the consumers to choose from, for people.
func (s *shown) candidates(all []quotav1alpha1.ConsumerRef) string {
	switch {
	case s.isForbidden:
		return fmt.Sprintf("you may not see the quota in namespace %s", s.namespace)
	case len(all) == 0:
		return fmt.Sprintf("namespace %s shows no quota; name another with -n", s.namespace)
	default:
		return fmt.Sprintf("namespace %s shows the quota of %s", s.namespace, names(all))
	}
}

// names returns consumers as --for takes them.
func names(all []quotav1alpha1.ConsumerRef) string { return strings.Join(consumername.List(all), ", ") }
