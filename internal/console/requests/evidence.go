package requests

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/cli/history"
	"github.com/bursar/bursar/internal/cli/request"
	"github.com/bursar/bursar/internal/console/fleet"
	"github.com/bursar/bursar/internal/console/overview"
	"github.com/bursar/bursar/internal/console/web"
	"github.com/bursar/bursar/internal/journal/overapi"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/quotarequest"
)

const (
	// growthWindow is the time over which pages show the growth of use.
	growthWindow = 30 * 24 * time.Hour
	// growthTypesMax bounds the resource types whose growth a page asks for.
	growthTypesMax = 3
	// growthPage is the number of journal entries in the request for the first one.
	growthPage = 10
	// similarMax bounds the similar decisions, and similarReadMax the requests to search for them.
	similarMax, similarReadMax = 10, 1000
)

// evidence helps to decide on a request.
type evidence struct {
	Types []typeEvidence
	// Rule is the message of the rule that applies.
	Rule    string
	Similar []row
	// QuotaIsCut reports whether the consumer has more quota than the page reads.
	QuotaIsCut bool
	// SimilarNote notes that the page did not search all requests.
	SimilarNote string
	// Ends is when quota ends that is approved now, if a policy ends it.
	Ends string
}

// typeEvidence has the known facts about a requested resource type, or its part with some dimensions.
type typeEvidence struct {
	Type string
	// Dimensions are those of the figures, such as model=h200. Empty: they are of the whole type.
	Dimensions string
	// UsesURL leads to the claims that use it.
	UsesURL string
	// Used, Limit and Percent are the consumer's, in display units, or empty without an effective grant.
	Used, Limit, Percent string
	// After is the limit with an approval of all.
	After string
	// Growth is how the use changed in the last 30 days.
	Growth string
	// Pools are the bounds of this resource type: caps and ceilings.
	Pools []string
}

// readEvidence reads the evidence for a decision.
func readEvidence(r *web.Request, s *shown, copies *fleet.Copies) (*evidence, error) {
	e := &evidence{QuotaIsCut: s.quotas.IsCut}
	policies, err := readPolicies(r.Context(), r.API())
	if err != nil {
		return nil, err
	}
	e.Rule = ruleMessage(policies, s.request.Status.PolicyRef)
	all := sync.OnceValues(func() (*fleet.Copy, bool) { return copies.For(r) })
	quotas, err := s.readPools(r)
	if err != nil {
		return nil, err
	}
	e.Ends = endOf(s.request, policies, time.Now())
	seen, types := map[string]bool{}, map[string]bool{}
	for i := range s.request.Spec.Requests {
		asked := &s.request.Spec.Requests[i]
		resourceType, dimensions := asked.ResourceType, message.Dimensions(asked.Dimensions)
		if seen[resourceType+" "+dimensions] {
			continue
		}
		seen[resourceType+" "+dimensions] = true
		types[resourceType] = true

		t := s.figures(resourceType)
		if len(asked.Dimensions) > 0 {
			t = s.figuresWith(t, asked, quotas)
		}
		if t.Growth = "Not shown: the request is for many resource types."; len(types) <= growthTypesMax {
			t.Growth = s.growth(r, resourceType)
		}
		t.Pools = s.pools(resourceType, policies, all)
		e.Types = append(e.Types, t)
	}
	return e, e.readSimilar(r, s.request)
}

// figures are the use and the limit of the consumer, and the limit after an approval of all.
func (s *shown) figures(resourceType string) typeEvidence {
	t := typeEvidence{Type: resourceType, UsesURL: web.Path("/uses", "namespace", s.Namespace,
		"consumer", overview.ReferenceTo(s.request.Spec.ConsumerRef), "type", resourceType)}
	unit := s.quotas.Unit(resourceType)
	var limit, increase int64
	now := s.quotas.of(s.request.Spec.ConsumerRef, resourceType)
	if now != nil {
		limit = now.Limit
		t.Used, t.Limit = now.UsedText, now.LimitText
		if now.IsMetered {
			t.Percent = now.Percent
		}
	}
	wanted := ledger.Amount(limit)
	for i := range s.request.Spec.Requests {
		switch asked := &s.request.Spec.Requests[i]; {
		case asked.ResourceType != resourceType:
		case asked.Limit != nil:
			wanted = max(wanted, ledger.Amount(*asked.Limit))
		default:
			increase = int64(ledger.Amount(increase).AddUpTo(ledger.Amount(quotarequest.AmountOf(asked))))
		}
	}
	if (now != nil || !s.quotas.isForbidden) && !quotarequest.IsFinal(s.request) {
		t.After = unit.Amount(int64(wanted.AddUpTo(ledger.Amount(increase))))
	}
	return t
}

// readPools asks Bursar for the quota of the dimensions in a request: other pages show whole resource types. It returns
// none if the person may not ask.
func (s *shown) readPools(r *web.Request) ([]quotav1alpha1.ReviewedQuota, error) {
	review := &quotav1alpha1.QuotaReview{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, GenerateName: "decide-"}}
	for i := range s.request.Spec.Requests {
		if asked := &s.request.Spec.Requests[i]; len(asked.Dimensions) > 0 {
			review.Spec.Requests = append(review.Spec.Requests, quotav1alpha1.ReviewedRequest{
				ConsumerRef:     s.request.Spec.ConsumerRef,
				ResourceRequest: quotav1alpha1.ResourceRequest{ResourceType: asked.ResourceType, Dimensions: asked.Dimensions, Amount: 1},
			})
		}
	}
	if len(review.Spec.Requests) == 0 {
		return nil, nil
	}
	err := r.API().Create(r.Context(), review, client.DryRunAll)
	switch {
	case apierrors.IsForbidden(err) || err == nil && review.Status == nil:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("ask for the quota of the requested dimensions: %w", err)
	}
	return review.Status.Quotas, nil
}

// figuresWith returns evidence with the figures of the dimensions of a requested amount.
func (s *shown) figuresWith(t typeEvidence, asked *quotav1alpha1.RequestedQuota, quotas []quotav1alpha1.ReviewedQuota) typeEvidence {
	t.Dimensions, t.Used, t.Limit, t.Percent, t.After = message.Dimensions(asked.Dimensions), "", "", "", ""
	i := slices.IndexFunc(quotas, func(q quotav1alpha1.ReviewedQuota) bool {
		return q.ResourceType == asked.ResourceType && maps.Equal(q.Dimensions, asked.Dimensions)
	})
	if i < 0 {
		return t
	}
	quota := &quotas[i]
	t.Used, t.Limit = quota.Display.Used, quota.Display.Limit
	t.Percent = message.Percent(ledger.Amount(quota.Used), ledger.Amount(quota.Limit))
	if quotarequest.IsFinal(s.request) {
		return t
	}
	after := ledger.Amount(quota.Limit)
	for j := range s.request.Spec.Requests {
		other := &s.request.Spec.Requests[j]
		isForThem := !slices.ContainsFunc(slices.Collect(maps.Keys(other.Dimensions)), func(key string) bool {
			value, ok := asked.Dimensions[key]
			return !ok || value != other.Dimensions[key]
		})
		if other.ResourceType == asked.ResourceType && other.Increase != nil && isForThem {
			after = after.AddUpTo(ledger.Amount(*other.Increase))
		}
	}
	t.After = s.quotas.Unit(asked.ResourceType).Amount(int64(after))
	return t
}

// endOf says when quota ends that is approved now, if policies end it before the end in the request.
func endOf(q *quotav1alpha1.QuotaRequest, policies []quotav1alpha1.QuotaRequestPolicy, now time.Time) string {
	longest := quotarequest.DurationMax(policies, q)
	if longest == 0 || quotarequest.IsFinal(q) || q.Spec.Until != nil && q.Spec.Until.Before(new(metav1.NewTime(now.Add(longest)))) {
		return ""
	}
	return fmt.Sprintf("If it is approved now, the quota ends at %s: a policy lets it last %s.",
		now.Add(longest).UTC().Format("2006-01-02 15:04 MST"), duration.HumanDuration(longest))
}

// growth describes how the use changed. It reads one entry of the journal: the first in the window.
func (s *shown) growth(r *web.Request, resourceType string) string {
	now := s.quotas.of(s.request.Spec.ConsumerRef, resourceType)
	if now == nil {
		return "Its use is not known."
	}
	source := &overapi.Source{API: r.API(), Namespace: s.Namespace, PageSize: growthPage}
	start, err := history.ReadStart(r.Context(), source, s.request.Spec.ConsumerRef, resourceType, time.Now().Add(-growthWindow))
	switch {
	case apierrors.HasStatusCause(err, quotav1alpha1.CauseNoJournal):
		return "Not known: this platform keeps no journal."
	case err != nil:
		return "Not known: " + sentence(err.Error())
	case start == nil:
		return "No change of use is recorded in the last 30 days."
	}
	unit, used := s.quotas.Unit(resourceType), now.Used
	since, unchanged := "30 days ago", "Unchanged for 30 days."
	if time.Since(start.Time) < growthWindow-time.Minute {
		begin := start.Time.UTC().Format("2006-01-02 15:04 MST")
		since, unchanged = "at the beginning of the journal, "+begin, "Unchanged since the beginning of the journal, "+begin+"."
	}
	switch change := used - start.Used; {
	case change > 0:
		return fmt.Sprintf("It used %s %s, and %s more now.", unit.Amount(start.Used), since, unit.Amount(change))
	case change < 0:
		return fmt.Sprintf("It used %s %s, and %s less now.", unit.Amount(start.Used), since, unit.Amount(-change))
	default:
		return unchanged
	}
}

// readPolicies reads the policies, or none if the person may not.
func readPolicies(ctx context.Context, api client.Client) ([]quotav1alpha1.QuotaRequestPolicy, error) {
	var list quotav1alpha1.QuotaRequestPolicyList
	if err := api.List(ctx, &list); err != nil && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("list the QuotaRequestPolicies: %w", err)
	}
	return list.Items, nil
}

// ruleMessage returns the message of a rule.
func ruleMessage(policies []quotav1alpha1.QuotaRequestPolicy, ref *quotav1alpha1.RequestPolicyRef) string {
	if ref == nil {
		return ""
	}
	for i := range policies {
		for _, rule := range policies[i].Spec.Rules {
			if policies[i].Name == ref.Name && rule.Name == ref.Rule {
				return rule.Message
			}
		}
	}
	return ""
}

// pools describes the bounds of a resource type, and the amounts left of them.
func (s *shown) pools(resourceType string, policies []quotav1alpha1.QuotaRequestPolicy, all func() (*fleet.Copy, bool)) []string {
	unit := s.quotas.Unit(resourceType)
	var pools []string
	if registration := s.quotas.Names.Registration(resourceType); registration != nil {
		if most := registration.Spec.MaxPerConsumer; most != nil {
			pools = append(pools, fmt.Sprintf("One consumer may have at most %s.", unit.Amount(*most)))
		}
		if most := registration.Spec.MaxTotal; most != nil {
			pools = append(pools, left(resourceType, *most, unit.Amount, all))
		}
	}
	for i := range policies {
		for _, ceiling := range policies[i].Spec.Ceilings {
			if ceiling.ResourceType != resourceType {
				continue
			}
			what := "a limit"
			if of := message.Dimensions(ceiling.Dimensions); of != "" {
				what = "the limit for " + of
			}
			pools = append(pools, fmt.Sprintf("QuotaRequestPolicy %s lets requests raise %s to %s at most.", policies[i].Name, what, unit.Amount(ceiling.Limit)))
		}
	}
	return pools
}

// left describes the free part of the cap of all consumers.
func left(resourceType string, most int64, text func(int64) string, all func() (*fleet.Copy, bool)) string {
	whole := fmt.Sprintf("All consumers together may have at most %s", text(most))
	copied, isRead := all()
	if copied == nil {
		return whole + ". You may not see their limits."
	}
	granted, isWhole := copied.Granted(resourceType)
	switch {
	case !isRead:
		return whole + ". The console is reading their limits: open this page again in a moment."
	case !isWhole:
		return whole + ". There are too many consumers to add up here."
	case int64(granted) > most:
		return fmt.Sprintf("%s, and have %s: nothing is left.", whole, text(int64(granted)))
	default:
		return fmt.Sprintf("%s, and have %s: %s is left.", whole, text(int64(granted)), text(most-int64(granted)))
	}
}

// readSimilar finds the latest decisions on requests of the same consumer or for the same resource types.
func (e *evidence) readSimilar(r *web.Request, q *quotav1alpha1.QuotaRequest) error {
	namespace := ""
	if !r.May(web.Right("list", "quotarequests", "")) {
		namespace = q.Namespace
	}
	list, err := request.List(r.Context(), r.API(), request.Filter{Namespace: namespace, IsAll: true, ReadMax: similarReadMax})
	var api apierrors.APIStatus
	if errors.As(err, &api) && apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if list.Continue != "" {
		e.SimilarNote = fmt.Sprintf("The console searched only %d requests.", similarReadMax)
	}
	similar := slices.DeleteFunc(list.Items, func(other quotav1alpha1.QuotaRequest) bool { return !isSimilar(q, &other) })
	slices.SortFunc(similar, func(a, b quotav1alpha1.QuotaRequest) int { return request.DecidedAt(&b).Compare(request.DecidedAt(&a)) })
	for i := range min(len(similar), similarMax) {
		e.Similar = append(e.Similar, rowOf(&similar[i]))
	}
	return nil
}

// isSimilar reports whether a decided request is of the same consumer, or for one of the same resource types.
func isSimilar(q, other *quotav1alpha1.QuotaRequest) bool {
	if other.UID == q.UID || !quotarequest.IsFinal(other) || len(other.Status.Decisions) == 0 {
		return false
	}
	if other.Spec.ConsumerRef == q.Spec.ConsumerRef {
		return true
	}
	for i := range other.Spec.Requests {
		if slices.ContainsFunc(q.Spec.Requests, func(asked quotav1alpha1.RequestedQuota) bool {
			return asked.ResourceType == other.Spec.Requests[i].ResourceType
		}) {
			return true
		}
	}
	return false
}
