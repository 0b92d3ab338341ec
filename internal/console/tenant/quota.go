package tenant

import (
	"context"
	"fmt"
	"hash/fnv"
	"html/template"
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/consumername"
	"github.com/bursar/bursar/internal/console/chart"
	"github.com/bursar/bursar/internal/console/overview"
	"github.com/bursar/bursar/internal/console/web"
	"github.com/bursar/bursar/internal/usage"
)

const (
	// itemsMax bounds the resource types on a page, and grantsMax the grants to read for their ends.
	itemsMax, grantsMax = 200, 500
	// trendsMax is of how many consumers a page shows trends: each takes a question to the journal.
	trendsMax = 3
)

// quotaPage shows the use of each resource type.
type quotaPage struct {
	scope
	// Forbidden names what the person may not see.
	Forbidden string
	Services  []service
	Unlisted  []overview.Unlisted
	IsCut     bool
	// Of names the consumer if there is only one.
	Of string
	// EndsAreCut reports whether there are more grants than grantsMax.
	EndsAreCut bool
	// TrendURL is the page with trends, or empty, and TrendIDs selects them there.
	TrendURL, TrendIDs string
}

// service has the resource types whose names begin with the same service.
type service struct {
	Name  string
	Tiles []tile
}

// tile is one resource type of one consumer.
type tile struct {
	overview.Item
	ID   string
	Bar  template.HTML
	Ends []end
	// WithConsumer reports whether the page has several consumers.
	WithConsumer                bool
	UsesURL, HistoryURL, AskURL string
	TrendURL                    string
}

// end is the end of a part of a limit.
type end struct {
	Amount, Grant string
	At            time.Time
}

func showQuota(r *web.Request) (web.Answer, error) {
	s, err := scopeOf(r, "/quota")
	if err != nil {
		return nil, err
	}
	s.WithConsumer = true
	page := &quotaPage{scope: s}
	answer := web.Page{
		Template: "quota", Title: "My quota", Data: page, Live: s.live(),
		Command: command("bursar usage", "-n", s.Namespace, "--consumer", s.Consumer),
	}
	if s.MustChoose {
		return answer, nil
	}
	found, err := overview.Read(r.Context(), r.API(), overview.Query{Namespace: s.Namespace, Consumer: s.Consumer, Max: itemsMax})
	if err != nil {
		page.Forbidden, err = forbidden(err, "the quota that is shown here")
		return answer, err
	}
	if page.Unlisted, err = found.Unlisted(r.Context(), r.API()); err != nil {
		return nil, err
	}
	grants, isCut, err := s.grants(r.Context(), r.API())
	if err != nil {
		return nil, err
	}
	page.IsCut, page.EndsAreCut = found.IsCut, isCut
	page.add(found.Items, grants)
	return answer, nil
}

// grants lists the grants of a namespace or of a consumer, as far as the person may see them. There is no list for
// everything: it would be long.
func (s *scope) grants(ctx context.Context, api client.Reader) (all []quotav1alpha1.ResourceGrant, isCut bool, _ error) {
	if s.Namespace == "" && s.Consumer == "" {
		return nil, false, nil
	}
	options := []client.ListOption{client.Limit(grantsMax)}
	if s.Consumer != "" {
		name, err := consumername.Parse(s.Consumer)
		if err != nil {
			return nil, false, err
		}
		given, _ := name.Full()
		options = append(options, client.MatchingFields{"spec.consumerRef.name": given.Name})
	}
	if !s.MaySeeAll || s.Consumer == "" {
		options = append(options, client.InNamespace(s.Namespace))
	}
	var list quotav1alpha1.ResourceGrantList
	err := api.List(ctx, &list, options...)
	if usage.IsOutOfReach(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("list the grants: %w", err)
	}
	return list.Items, list.Continue != "", nil
}

// add adds items to the page, by service.
func (p *quotaPage) add(items []overview.Item, grants []quotav1alpha1.ResourceGrant) {
	consumers := consumersOf(items)
	if len(consumers) == 1 {
		p.Of = items[0].Consumer
	}
	hasTrends := len(consumers) > 0 && len(consumers) <= trendsMax
	if hasTrends {
		p.TrendURL = p.URL("/quota/trend")
	}
	now := time.Now()
	for _, item := range items {
		t := tile{
			Item: item, ID: trendID(&item.Usage), Bar: chart.Bar(item.Used, item.Limit, item.Percent+" used"), WithConsumer: len(consumers) > 1,
			Ends:       endsOf(&item, grants, now),
			UsesURL:    web.Path("/uses", "namespace", p.Namespace, "consumer", item.Reference, "type", item.ResourceType),
			HistoryURL: web.Path("/history", "namespace", item.Namespace, "consumer", item.Reference, "type", item.ResourceType),
			AskURL:     web.Path("/requests/new", "namespace", item.Namespace, "consumer", item.Consumer, "type", item.ResourceType),
			TrendURL:   p.TrendURL,
		}
		if hasTrends {
			if p.TrendIDs != "" {
				p.TrendIDs += ","
			}
			p.TrendIDs += "#" + t.ID
		}
		i := slices.IndexFunc(p.Services, func(s service) bool { return s.Name == item.Service })
		if i < 0 {
			i = len(p.Services)
			p.Services = append(p.Services, service{Name: item.Service})
		}
		p.Services[i].Tiles = append(p.Services[i].Tiles, t)
	}
}

// consumersOf returns the consumers of items, each once.
func consumersOf(items []overview.Item) []quotav1alpha1.ConsumerRef {
	var all []quotav1alpha1.ConsumerRef
	for i := range items {
		if consumer := items[i].Usage.Consumer; !slices.Contains(all, consumer) {
			all = append(all, consumer)
		}
	}
	return all
}

// trendID is the ID of an element with the trend of a resource type. It has no character of their names.
func trendID(u *usage.Usage) string {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(overview.ReferenceTo(u.Consumer) + " " + u.ResourceType)) // a hash never fails
	return fmt.Sprintf("trend-%x", hash.Sum64())
}

// endsOf returns when parts of an item's limit end, the first end first.
func endsOf(item *overview.Item, grants []quotav1alpha1.ResourceGrant, now time.Time) []end {
	var ends []end
	for i := range grants {
		grant := &grants[i]
		isActive := apimeta.IsStatusConditionTrue(grant.Status.Conditions, quotav1alpha1.ConditionActive)
		if grant.Spec.ConsumerRef != item.Usage.Consumer || !isActive {
			continue
		}
		for j := range grant.Spec.Allowances {
			allowance := &grant.Spec.Allowances[j]
			at := grant.Spec.PeriodOf(allowance).NotAfter
			if allowance.ResourceType != item.ResourceType || at == nil || !grant.Spec.Counts(allowance, now) {
				continue
			}
			amount := int64(0)
			for _, bucket := range allowance.Buckets {
				amount += bucket.Amount
			}
			ends = append(ends, end{Amount: item.Unit.Amount(amount), Grant: grant.Namespace + "/" + grant.Name, At: at.Time})
		}
	}
	slices.SortStableFunc(ends, func(a, b end) int { return a.At.Compare(b.At) })
	return ends
}
