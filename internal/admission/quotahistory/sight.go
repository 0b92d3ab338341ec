package quotahistory

import (
	"context"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	quotasight "github.com/bursar/bursar/internal/admission/sight"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/naming"
)

// lookupsMax is how many namespaces a page may ask about.
const lookupsMax = 20

// sight is a user's view of a consumer's journal. Only one goroutine may use it.
type sight struct {
	*quotasight.Sight
	// seesAll means full sight, with actors.
	seesAll bool
	// home is the namespace with the consumer's quota objects.
	home string
}

// sightOf asks for the sight of a user. It returns [quotasight.ErrBlind] if the user may see nothing.
func (r *Reader) sightOf(ctx context.Context, user authenticationv1.UserInfo, consumer quotav1alpha1.ConsumerRef) (*sight, error) {
	s := &sight{Sight: quotasight.New(r.Permissions, user, lookupsMax), home: r.Consumers.ConsumerNamespace(consumer)}
	var err error
	if s.seesAll, err = s.Ledger(ctx, naming.Ledger(consumer)); err != nil || s.seesAll {
		return s, err
	}
	seesFigures, err := s.Figures(ctx, s.home)
	if err == nil && !seesFigures {
		err = quotasight.ErrBlind
	}
	return s, err
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
	namespace := s.home
	if of, _, named := strings.Cut(entry.Claim, "/"); named {
		namespace = of
	} else if entry.Object != nil && entry.Object.Namespace != "" {
		namespace = entry.Object.Namespace
	}
	return s.Claims(ctx, namespace)
}
