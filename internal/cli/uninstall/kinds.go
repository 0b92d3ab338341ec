package uninstall

import (
	"context"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bursar/bursar/deploy/crds"
	"github.com/bursar/bursar/internal/cli/quotakinds"
)

// kind is one of Bursar's kinds, or the kind of imported consumers.
type kind struct {
	schema.GroupVersionResource
	definition string
}

// String returns the full name of the resource: without the group, resourceclaims would be those of devices.
func (k kind) String() string { return k.definition }

// removedFirst are the kinds with objects that lead to others, and removedLast the ledgers, because they record usage.
// All other kinds are between them.
var (
	removedFirst = []string{
		"claimcreationpolicies.quota.miloapis.com", "grantcreationpolicies.quota.miloapis.com", "quotaserviceconfigs.openmcp.cloud",
		"resourceclaims.quota.miloapis.com",
	}
	removedLast = []string{"consumerledgers.quota.miloapis.com", "allocationledgers.quota.miloapis.com"}
)

// findKinds finds Bursar's kinds on the cluster.
func (u *uninstaller) findKinds(ctx context.Context) error {
	definitions, err := crds.All()
	if err != nil {
		return fmt.Errorf("read the CRDs: %w", err)
	}
	names := []string{quotakinds.Consumers.String()}
	for _, definition := range definitions {
		names = append(names, definition.Name)
	}
	for _, name := range names {
		stored, err := u.extensions.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read CustomResourceDefinition %s: %w", name, err)
		}
		if version := servedVersion(stored); version != "" {
			u.kinds = append(u.kinds, kind{definition: stored.Name, GroupVersionResource: schema.GroupVersionResource{
				Group: stored.Spec.Group, Version: version, Resource: stored.Spec.Names.Plural,
			}})
		}
	}
	slices.SortStableFunc(u.kinds, func(a, b kind) int { return rank(a.definition) - rank(b.definition) })
	return nil
}

func servedVersion(definition *apiextensionsv1.CustomResourceDefinition) string {
	for _, version := range definition.Spec.Versions {
		if version.Served {
			return version.Name
		}
	}
	return ""
}

// rank orders kinds by the removal of their objects.
func rank(definition string) int {
	if i := slices.Index(removedFirst, definition); i >= 0 {
		return i
	}
	if i := slices.Index(removedLast, definition); i >= 0 {
		return len(removedFirst) + 1 + i
	}
	return len(removedFirst)
}
