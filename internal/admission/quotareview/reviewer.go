// Package quotareview answers QuotaReviews: would Bursar admit these objects? It evaluates the policies as the
// webhook of the objects would, and decides on copies of the ledgers. It writes nothing, and nobody stores a
// QuotaReview.
//
// Package operator serves it, and the command policy test asks it without a server.
package quotareview

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/semaphore"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/kube/discoverycache"
	"github.com/bursar/bursar/internal/ledger/forecast"
)

// Dependencies are the dependencies of a reviewer.
type Dependencies struct {
	Catalog   *catalog.Catalog
	Evaluator *evaluator.Evaluator
	Facts     Facts
	Kinds     discoverycache.Resolver
	// Permissions limit the answer to the quota that the user may see. Default: every user may see everything.
	Permissions Permissions
	// Ready is closed once all dependencies of decisions are in memory.
	Ready <-chan struct{}
}

// Reviewer answers reviews. It is safe for concurrent use.
type Reviewer struct {
	Dependencies
	// turns bounds the reviews in progress.
	turns *semaphore.Weighted
}

// reviewsAtOnce is the number of reviews in progress at the same time. A review may take a second of CPU time, and
// creates must not wait for it.
const reviewsAtOnce = 2

// New returns a reviewer with dependencies.
func New(deps Dependencies) *Reviewer {
	return &Reviewer{Dependencies: deps, turns: semaphore.NewWeighted(reviewsAtOnce)}
}

// Permissions asks the API server for the permissions of users.
type Permissions interface {
	May(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error)
}

// question is one review in progress.
type question struct {
	*Reviewer
	user     authenticationv1.UserInfo
	forecast forecast.Forecast
	// breaksGlass means that the webhooks let the user's requests pass.
	breaksGlass bool
	// permissions are the user's permissions looked up so far.
	permissions map[authorizationv1.ResourceAttributes]bool
}

// During a change of an object, the review reads its charges and the ledger at different moments, and the two may
// contradict each other. The reviewer then asks the question again.
const (
	attempts = 3
	pause    = 100 * time.Millisecond
)

// Review answers a question of a user. An error means that no answer is possible now.
func (r *Reviewer) Review(ctx context.Context, user authenticationv1.UserInfo, spec *quotav1alpha1.QuotaReviewSpec) (*quotav1alpha1.QuotaReviewStatus, error) {
	q := &question{
		Reviewer: r, user: user, permissions: map[authorizationv1.ResourceAttributes]bool{},
		breaksGlass: slices.Contains(user.Groups, quotav1alpha1.BreakGlassGroup),
	}
	for attempt := 1; ; attempt++ {
		items, err := q.ask(ctx, spec)
		if err != nil {
			return nil, err
		}
		if attempt == attempts || !slices.ContainsFunc(items, func(it *item) bool { return it.isMoving }) {
			return q.answer(ctx, items, len(spec.Objects))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("wait until the usage of objects is recorded: %w", context.Cause(ctx))
		}
	}
}

// ask decides all objects and amounts by the ledgers as of now.
func (q *question) ask(ctx context.Context, spec *quotav1alpha1.QuotaReviewSpec) ([]*item, error) {
	q.forecast = forecast.Forecast{Ledgers: q.Facts}
	items := make([]*item, 0, len(spec.Objects)+len(spec.Requests))
	for i := range spec.Objects {
		items = append(items, q.object(ctx, &spec.Objects[i]))
	}
	markRepeated(items)
	for i := range spec.Requests {
		items = append(items, q.request(&spec.Requests[i]))
	}
	return items, q.decide(ctx, items, spec.Surge)
}

// decide decides the changes of all items without a result.
func (q *question) decide(ctx context.Context, items []*item, surge bool) error {
	changes := make([][]forecast.Change, len(items))
	for i, it := range items {
		if err := q.hide(ctx, it); err != nil {
			return err
		}
		// Policies that enforce decide before the charges of others.
		slices.SortStableFunc(it.changes, func(a, b change) int { return compareBools(a.Overdraft, b.Overdraft) })
		if it.result != "" {
			continue
		}
		for j := range it.changes {
			changes[i] = append(changes[i], it.changes[j].Change)
		}
	}
	decisions, err := q.forecast.Decide(ctx, changes, surge)
	if err != nil {
		return err
	}
	for i, it := range items {
		if it.result == "" {
			q.conclude(it, decisions[i])
		}
	}
	return nil
}

// hide keeps the quota that the user may not see out of the answer. Otherwise the results of decisions would reveal,
// by and by, how much is left.
func (q *question) hide(ctx context.Context, it *item) error {
	seen := it.changes[:0]
	for _, c := range it.changes {
		visible, err := q.maySee(ctx, c.Consumer)
		switch {
		case err != nil:
			return err
		case visible:
			seen = append(seen, c)
		case !c.Overdraft && len(c.After) > 0 && it.result == "":
			it.unknown("you may not see the quota of " + message.Consumer(c.Consumer) + ", the consumer that pays")
		}
	}
	it.changes = seen
	return nil
}

// maySee reports whether the user may see the quota of a consumer, as in denials.
func (q *question) maySee(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (bool, error) {
	return q.may(ctx, authorizationv1.ResourceAttributes{
		Namespace: q.Catalog.ConsumerNamespace(consumer), Verb: "get", Group: quotav1alpha1.GroupName, Resource: "effectiveresourcegrants",
	})
}

// may asks for each permission once.
func (q *question) may(ctx context.Context, what authorizationv1.ResourceAttributes) (bool, error) {
	if q.Permissions == nil {
		return true, nil
	}
	if may, known := q.permissions[what]; known {
		return may, nil
	}
	may, err := q.Permissions.May(ctx, q.user, what)
	if err != nil {
		return false, fmt.Errorf("check the permissions of %s: %w", q.user.Username, err)
	}
	q.permissions[what] = may
	return may, nil
}

// request returns the item of an amount.
func (q *question) request(asked *quotav1alpha1.ReviewedRequest) *item {
	it := &item{}
	requests := []quotav1alpha1.ResourceRequest{asked.ResourceRequest}
	charges, err := claims.Charges(requests)
	if err == nil {
		// Nothing says yet which kind of object claims the amount.
		err = q.Catalog.CheckClaim(&quotav1alpha1.ResourceClaimSpec{ConsumerRef: asked.ConsumerRef, Requests: requests})
	}
	switch {
	case err != nil:
		it.deny(err.Error())
	case asked.Amount == 0:
		it.result = quotav1alpha1.ReviewResultFits
	default:
		it.changes = []change{{Change: forecast.Change{Consumer: asked.ConsumerRef, After: charges}}}
	}
	return it
}

// compareBools orders false before true.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
