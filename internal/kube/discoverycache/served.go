package discoverycache

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// resources are those of each kind of a group, in the order of the versions, the preferred first.
type resources map[string][]schema.GroupVersionResource

// served is the result of one discovery. It is immutable.
type served struct {
	groups map[string]resources
	// unknown are the groups with failed discovery. Their entries in groups, if any, are from an earlier time.
	unknown map[string]error
}

// discover runs discovery. It keeps the previous result of failed groups.
func discover(d Discovery, before *served) (*served, error) {
	groups, lists, err := d.ServerGroupsAndResources()
	failed, isPartial := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !isPartial {
		return nil, err
	}
	s := &served{groups: map[string]resources{}, unknown: unknownOf(failed)}
	for _, group := range groups {
		s.groups[group.Name] = resourcesOf(group, lists)
	}
	for group := range s.unknown {
		if before != nil && before.groups[group] != nil {
			s.groups[group] = before.groups[group]
		}
	}
	return s, nil
}

// unknownOf leaves out the groups that are no longer there.
func unknownOf(failed map[schema.GroupVersion]error) map[string]error {
	unknown := map[string]error{}
	for version, err := range failed {
		if !apierrors.IsNotFound(err) {
			unknown[version.Group] = err
		}
	}
	return unknown
}

func resourcesOf(group *metav1.APIGroup, lists []*metav1.APIResourceList) resources {
	versions := []string{group.PreferredVersion.GroupVersion}
	for _, version := range group.Versions {
		if !slices.Contains(versions, version.GroupVersion) {
			versions = append(versions, version.GroupVersion)
		}
	}
	found := resources{}
	for _, version := range versions {
		for _, list := range lists {
			if list.GroupVersion == version {
				found.add(list)
			}
		}
	}
	return found
}

// add adds the resources of one version, without subresources. If a version has several resources of one kind, the
// first counts.
func (r resources) add(list *metav1.APIResourceList) {
	version, err := schema.ParseGroupVersion(list.GroupVersion)
	if err != nil {
		return
	}
	for _, resource := range list.APIResources {
		if !strings.Contains(resource.Name, "/") {
			r[resource.Kind] = append(r[resource.Kind], version.WithResource(resource.Name))
		}
	}
}

// find returns the resource of a kind at a version, and false if the kind is not served. The version "" is the
// preferred one.
func (s *served) find(kind schema.GroupKind, version string) (schema.GroupVersionResource, bool, error) {
	for _, resource := range s.groups[kind.Group][kind.Kind] {
		if version == "" || resource.Version == version {
			return resource, true, nil
		}
	}
	if err := s.unknown[kind.Group]; err != nil {
		return schema.GroupVersionResource{}, false, fmt.Errorf("cannot tell whether kind %s is served: %w", kind, err)
	}
	return schema.GroupVersionResource{}, false, nil
}

// equal reports whether find returns the same results, except for the texts of errors.
func (s *served) equal(other *served) bool {
	if s == nil || other == nil || len(s.unknown) != len(other.unknown) {
		return s == other
	}
	for group := range s.unknown {
		if other.unknown[group] == nil {
			return false
		}
	}
	return reflect.DeepEqual(s.groups, other.groups)
}
