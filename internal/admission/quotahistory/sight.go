package quotahistory

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/naming"
)

// lookupsMax is how many namespaces a page may ask about.
const lookupsMax = 20

// errLookups means that a page may ask about no more namespaces.
var errLookups = errors.New("too many namespaces")

// errBlind means that the user may see nothing of a consumer.
var errBlind = errors.New("the user may not see the consumer's quota")

// sight is a user's view of a consumer's journal. Only one goroutine may use it.
type sight struct {
	permissions Permissions
	user        authenticationv1.UserInfo
	// seesAll means full sight, with actors.
	seesAll bool
	// home is the namespace with the consumer's quota objects.
	home string
	// claims has the known answers by namespace: whether the user may get claims there. The empty one stands for all.
	claims map[string]bool
}

// sightOf asks for the sight of a user. It returns errBlind if the user may see nothing.
func (r *Reader) sightOf(ctx context.Context, user authenticationv1.UserInfo, consumer quotav1alpha1.ConsumerRef) (*sight, error) {
	s := &sight{permissions: r.Permissions, user: user, home: r.Consumers.ConsumerNamespace(consumer), claims: map[string]bool{}}
	var err error
	if s.seesAll, err = s.mayGet(ctx, "consumerledgers", "", naming.Ledger(consumer)); err != nil || s.seesAll {
		return s, err
	}
	seesFigures, err := s.mayGet(ctx, "effectiveresourcegrants", s.home, "")
	if err == nil && !seesFigures {
		err = errBlind
	}
	return s, err
}

// mayGet asks for a permission.
func (s *sight) mayGet(ctx context.Context, resource, namespace, name string) (bool, error) {
	may, err := s.permissions.May(ctx, s.user, authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: "get", Group: quotav1alpha1.GroupName, Resource: resource, Name: name,
	})
	if err != nil {
		return false, fmt.Errorf("check the permissions of %s: %w", s.user.Username, err)
	}
	return may, nil
}

// show returns the visible part of an entry.
func (s *sight) show(ctx context.Context, entry *journal.Entry) (*quotav1alpha1.JournalEntry, error) {
	shown, err := entry.ToAPI()
	if err != nil {
		return nil, sourceError{err}
	}
	if s.seesAll {
		return shown, nil
	}
	shown.Actor = ""
	seesClaim, err := s.seesClaim(ctx, entry)
	if err != nil {
		return nil, err
	}
	if !seesClaim {
		shown.Object, shown.Claim, shown.Policy = nil, "", ""
	}
	return shown, nil
}

// seesClaim reports whether the user may see the claim of an entry, and with it the object. Those of a consumer may
// be in namespaces of others.
func (s *sight) seesClaim(ctx context.Context, entry *journal.Entry) (bool, error) {
	if entry.Object == nil && entry.Claim == "" && entry.Policy == "" {
		return true, nil
	}
	if everywhere, err := s.mayGetClaims(ctx, ""); err != nil || everywhere {
		return everywhere, err
	}
	namespace := s.home
	if of, _, named := strings.Cut(entry.Claim, "/"); named {
		namespace = of
	} else if entry.Object != nil && entry.Object.Namespace != "" {
		namespace = entry.Object.Namespace
	}
	return s.mayGetClaims(ctx, namespace)
}

// mayGetClaims asks for each namespace once.
func (s *sight) mayGetClaims(ctx context.Context, namespace string) (bool, error) {
	may, known := s.claims[namespace]
	if known {
		return may, nil
	}
	if len(s.claims) > lookupsMax {
		return false, errLookups
	}
	may, err := s.mayGet(ctx, "resourceclaims", namespace, "")
	if err == nil {
		s.claims[namespace] = may
	}
	return may, err
}
