// Package quotakinds finds Bursar's kinds on an API server, and reads their objects in pages. It divides them by role:
// people's declarations, records of what happened, and objects derived by Bursar. It also knows the other kinds that
// quota depends on. Only commands import it.
package quotakinds

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/deploy/crds"
)

// Role is the role of the objects of a kind.
type Role int

const (
	// Declared are objects that people or their tools write: the configuration of quota.
	Declared Role = iota
	// Recorded are objects that record what happened: claims, and requests with the decisions on them.
	Recorded
	// Derived are objects that Bursar makes from the others.
	Derived
	// Imported are the objects of bursar import outside of Bursar's API groups.
	Imported
	// Place are the namespaces.
	Place
)

// Kind is a kind of objects for quota, as a server serves it.
type Kind struct {
	schema.GroupVersionResource
	Kind         string
	IsNamespaced bool
	Role         Role

	// Names are the only objects that count, or empty for all. A role may permit the list of a name, and no other list.
	Names []string

	// labels select the objects. Empty, all objects count.
	labels string
}

// String returns the full name of the resource.
func (k Kind) String() string { return k.GroupResource().String() }

// GVK returns the kind with its group and version.
func (k Kind) GVK() schema.GroupVersionKind { return k.GroupVersion().WithKind(k.Kind) }

// These resources have a role of their own. All others count as declared, so a backup includes a kind of a later
// version.
var (
	recorded = []string{"resourceclaims", "quotarequests", "quotadecisions"}
	derived  = []string{
		"allowancebuckets", "effectiveresourcegrants", "localresourcequotaallocations", "consumerledgers", "allocationledgers",
		"quotareviews", "quotahistories", "quotausages", // questions: Bursar answers and never stores them
	}
)

// This is the order for writing declared objects: first the targets of references, and last the policies, because they
// act.
var (
	first = []string{"resourceregistrations", "resourcegrants"}
	last  = []string{"quotarequestpolicies", "grantcreationpolicies", "claimcreationpolicies"}
)

func rank(resource string) int {
	if i := slices.Index(first, resource); i >= 0 {
		return i
	}
	if i := slices.Index(last, resource); i >= 0 {
		return len(first) + 1 + i
	}
	return len(first)
}

// Find returns Bursar's kinds with listable objects, in the order for writing them.
func Find(api discovery.DiscoveryInterface) ([]Kind, error) {
	ours, err := openmcpResources()
	if err != nil {
		return nil, err
	}
	var kinds []Kind
	for _, version := range []schema.GroupVersion{quotav1alpha1.GroupVersion, openmcpv1alpha1.GroupVersion} {
		list, err := api.ServerResourcesForGroupVersion(version.String())
		switch {
		case apierrors.IsNotFound(err) && version == openmcpv1alpha1.GroupVersion:
			continue
		case apierrors.IsNotFound(err):
			return nil, fmt.Errorf("the API server serves no quota: %s is missing; install Bursar there, or choose another server with --kubeconfig or --context", version)
		case err != nil:
			return nil, fmt.Errorf("ask the API server for the kinds of %s: %w", version, err)
		}
		for _, r := range list.APIResources {
			isOther := version == openmcpv1alpha1.GroupVersion && !slices.Contains(ours, r.Name)
			if !slices.Contains(r.Verbs, "list") || isOther {
				continue // such as a subresource, or a kind of openMCP itself
			}
			kinds = append(kinds, Kind{GroupVersionResource: version.WithResource(r.Name), Kind: r.Kind, IsNamespaced: r.Namespaced, Role: roleOf(r.Name)})
		}
	}
	slices.SortFunc(kinds, func(a, b Kind) int {
		return cmp.Or(cmp.Compare(rank(a.Resource), rank(b.Resource)), cmp.Compare(a.String(), b.String()))
	})
	return kinds, nil
}

// openmcpResources returns Bursar's resources of the group openmcp.cloud.
func openmcpResources() ([]string, error) {
	definitions, err := crds.All()
	if err != nil {
		return nil, fmt.Errorf("read the CRDs: %w", err)
	}
	var names []string
	for _, d := range definitions {
		if d.Spec.Group == openmcpv1alpha1.GroupName {
			names = append(names, d.Spec.Names.Plural)
		}
	}
	return names, nil
}

func roleOf(resource string) Role {
	switch {
	case slices.Contains(recorded, resource):
		return Recorded
	case slices.Contains(derived, resource):
		return Derived
	default:
		return Declared
	}
}

// WithRoles returns the kinds with one of the roles.
func WithRoles(kinds []Kind, roles ...Role) []Kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k Kind) bool { return !slices.Contains(roles, k.Role) })
}

// pageSize is how many objects one request lists.
const pageSize = 500

// Each calls do with every object of a resource, in the order of the API server: by namespace and name. With a version,
// it lists the objects of exactly that version. It returns the version of the list.
func Each(ctx context.Context, api dynamic.Interface, resource schema.GroupVersionResource, version string, do func(*unstructured.Unstructured) error) (string, error) {
	return Kind{GroupVersionResource: resource}.Each(ctx, api, version, do)
}

// EachWith is [Each] for the objects with labels, in their current version.
func EachWith(ctx context.Context, api dynamic.Interface, resource schema.GroupVersionResource, labels string, do func(*unstructured.Unstructured) error) error {
	_, err := Kind{GroupVersionResource: resource, labels: labels}.Each(ctx, api, "", do)
	return err
}

// Each does the same as the function [Each], with the objects of the kind.
func (k Kind) Each(ctx context.Context, api dynamic.Interface, version string, do func(*unstructured.Unstructured) error) (listed string, err error) {
	for _, options := range k.lists() {
		if listed, err = k.each(ctx, api, options, version, do); err != nil {
			return "", err
		}
	}
	return listed, nil
}

// Version returns the current version of the API server.
func (k Kind) Version(ctx context.Context, api dynamic.Interface) (string, error) {
	options := k.lists()[0]
	options.Limit = 1
	list, err := api.Resource(k.GroupVersionResource).List(ctx, options)
	if err != nil {
		return "", fmt.Errorf("list %s: %w", k, err)
	}
	return list.GetResourceVersion(), nil
}

// lists returns the options of each list of the objects.
func (k Kind) lists() []metav1.ListOptions {
	if len(k.Names) == 0 {
		return []metav1.ListOptions{{Limit: pageSize, LabelSelector: k.labels}}
	}
	var lists []metav1.ListOptions
	for _, name := range k.Names {
		lists = append(lists, metav1.ListOptions{Limit: pageSize, FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()})
	}
	return lists
}

func (k Kind) each(ctx context.Context, api dynamic.Interface, options metav1.ListOptions, version string, do func(*unstructured.Unstructured) error) (string, error) {
	if version != "" {
		options.ResourceVersion, options.ResourceVersionMatch = version, metav1.ResourceVersionMatchExact
	}
	for {
		list, err := api.Resource(k.GroupVersionResource).List(ctx, options)
		if err != nil {
			return "", fmt.Errorf("list %s: %w", k, err)
		}
		for i := range list.Items {
			if err := do(&list.Items[i]); err != nil {
				return "", err
			}
		}
		if list.GetContinue() == "" {
			return list.GetResourceVersion(), nil
		}
		options.Continue, options.ResourceVersion, options.ResourceVersionMatch = list.GetContinue(), "", ""
	}
}
