// Package sight finds out what a user may see of quota, for webhooks that answer questions. The answers are those of
// the API server about rights to read Bursar's own kinds.
package sight

import (
	"context"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Permissions asks the API server for the permissions of users.
type Permissions interface {
	May(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error)
}

// ErrLookups means that one answer may ask about no more namespaces.
var ErrLookups = errors.New("too many namespaces")

// ErrBlind means that the user may see nothing of a consumer's quota.
var ErrBlind = errors.New("the user may not see the consumer's quota")

// Sight is what a user sees, for one answer. Only one goroutine may use it.
type Sight struct {
	permissions Permissions
	user        authenticationv1.UserInfo
	// lookupsMax is how many namespaces it may ask about.
	lookupsMax int
	// claims has the known answers by namespace: whether the user may get claims there. The empty one stands for all.
	claims map[string]bool
}

// New returns the sight of a user. It asks about the claims of at most lookupsMax namespaces.
func New(permissions Permissions, user authenticationv1.UserInfo, lookupsMax int) *Sight {
	return &Sight{permissions: permissions, user: user, lookupsMax: lookupsMax, claims: map[string]bool{}}
}

// Ledger reports whether the user may get a ConsumerLedger, or all for an empty name. This is full sight.
func (s *Sight) Ledger(ctx context.Context, name string) (bool, error) {
	return s.mayGet(ctx, "consumerledgers", "", name)
}

// Figures reports whether the user may get the EffectiveResourceGrants in a namespace, or in all if it is empty. This
// is sight of figures.
func (s *Sight) Figures(ctx context.Context, namespace string) (bool, error) {
	return s.mayGet(ctx, "effectiveresourcegrants", namespace, "")
}

// Claims reports whether the user may get the ResourceClaims in a namespace, or in all if it is empty. This is sight of
// the objects there. It asks about each namespace once, and returns [ErrLookups] beyond the bound.
func (s *Sight) Claims(ctx context.Context, namespace string) (bool, error) {
	if everywhere, err := s.claimsIn(ctx, ""); err != nil || everywhere {
		return everywhere, err
	}
	return s.claimsIn(ctx, namespace)
}

func (s *Sight) claimsIn(ctx context.Context, namespace string) (bool, error) {
	may, known := s.claims[namespace]
	if known {
		return may, nil
	}
	if len(s.claims) > s.lookupsMax {
		return false, ErrLookups
	}
	may, err := s.mayGet(ctx, "resourceclaims", namespace, "")
	if err == nil {
		s.claims[namespace] = may
	}
	return may, err
}

func (s *Sight) mayGet(ctx context.Context, resource, namespace, name string) (bool, error) {
	may, err := s.permissions.May(ctx, s.user, authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: "get", Group: quotav1alpha1.GroupName, Resource: resource, Name: name,
	})
	if err != nil {
		return false, fmt.Errorf("check the permissions of %s: %w", s.user.Username, err)
	}
	return may, nil
}
