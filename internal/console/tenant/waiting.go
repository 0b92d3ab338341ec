package tenant

import (
	"cmp"
	"encoding/json"
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/console/overview"
	"github.com/bursar/bursar/internal/console/web"
	"github.com/bursar/bursar/internal/usage/holders"
)

// waitingMax bounds the claims on the page.
const waitingMax = 200

// waitingPage shows the claims waiting for quota.
type waitingPage struct {
	scope
	Forbidden string
	Queues    []queue
	// Total is the number of waiting claims. The page shows the first ones.
	Total int
	IsCut bool
	// ReadMax is the number of claims read if there are more, or 0.
	ReadMax int
}

// queue has the waiting claims of a consumer, in the order of decision.
type queue struct {
	Consumer, ConsumerURL string
	// MayHaveOthers reports whether the consumer may have claims in namespaces that the person may not see.
	MayHaveOthers bool
	Rows          []waitingRow
}

// waitingRow is a waiting claim.
type waitingRow struct {
	row
	Position int
	// Short are the missing amounts. It is empty if there is room.
	Short []amount
	// IsUnknown means that the person does not see some of the quota: more may be missing.
	IsUnknown bool
	// AskURL leads to a request for the missing amounts.
	AskURL string
}

func showWaiting(r *web.Request) (web.Answer, error) {
	s, err := scopeOf(r, "/waiting")
	if err != nil {
		return nil, err
	}
	s.WithConsumer = true
	page := &waitingPage{scope: s}
	answer := web.Page{
		Template: "waiting", Title: "Waiting", Data: page, Live: s.live(),
		Command: command("bursar usage --claims", "-n", s.Namespace, "--consumer", s.Consumer),
	}
	if s.MustChoose {
		return answer, nil
	}
	found, err := s.readClaims(r.Context(), r.API(), false)
	if err != nil {
		page.Forbidden, err = forbidden(err, "the claims here")
		return answer, err
	}
	quotas, err := s.quotas(r)
	if err != nil {
		return nil, err
	}
	if found.isCut {
		page.ReadMax = claimsMax
	}
	page.add(found, quotas)
	return answer, nil
}

// add adds the waiting claims: of each consumer the oldest first, as Bursar decides them.
func (p *waitingPage) add(found *claims, quotas *overview.Overview) {
	waiting := slices.DeleteFunc(found.all, func(claim quotav1alpha1.ResourceClaim) bool {
		state, _ := stateOf(&claim)
		return state == stateGranted
	})
	slices.SortFunc(waiting, func(a, b quotav1alpha1.ResourceClaim) int {
		return cmp.Or(cmp.Compare(overview.ReferenceTo(a.Spec.ConsumerRef), overview.ReferenceTo(b.Spec.ConsumerRef)),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	p.Total, p.IsCut = len(waiting), len(waiting) > waitingMax
	for i := range waiting[:min(len(waiting), waitingMax)] {
		claim := &waiting[i]
		asks := holders.OfClaim(claim)
		w := waitingRow{row: p.rowOf(&asks, quotas)}
		if len(p.Queues) == 0 || p.Queues[len(p.Queues)-1].ConsumerURL != w.ConsumerURL {
			p.Queues = append(p.Queues, queue{Consumer: w.Consumer, ConsumerURL: w.ConsumerURL, MayHaveOthers: !found.isWhole})
		}
		q := &p.Queues[len(p.Queues)-1]
		w.Position = len(q.Rows) + 1
		w.Short, w.IsUnknown, w.AskURL = shortOf(claim, quotas.Items)
		q.Rows = append(q.Rows, w)
	}
}

// needOf returns the amounts that a claim waits for: its own, or the increase of a resize.
func needOf(claim *quotav1alpha1.ResourceClaim) []quotav1alpha1.ResourceRequest {
	state, _ := stateOf(claim)
	var resized []quotav1alpha1.ResourceRequest
	asked := claim.Annotations[quotav1alpha1.AnnotationResize]
	isResize := state == stateWaiting && apimeta.IsStatusConditionTrue(claim.Status.Conditions, quotav1alpha1.ConditionGranted)
	if !isResize || json.Unmarshal([]byte(asked), &resized) != nil {
		return claim.Spec.Requests
	}
	var need []quotav1alpha1.ResourceRequest
	for _, request := range resized {
		for _, held := range claim.Spec.Requests {
			if held.ResourceType == request.ResourceType {
				request.Amount -= held.Amount
			}
		}
		if request.Amount > 0 {
			need = append(need, request)
		}
	}
	return need
}

// shortOf returns the missing amounts of a claim, and the page of a request for them.
func shortOf(claim *quotav1alpha1.ResourceClaim, items []overview.Item) (short []amount, isUnknown bool, ask string) {
	asks := holders.OfClaim(claim)
	ref := asks.Subject()
	wish := wish{reason: "For " + ref.Kind + " " + ref.Name + ", which waits"}
	for _, request := range needOf(claim) {
		i := slices.IndexFunc(items, func(item overview.Item) bool {
			return item.Usage.Consumer == claim.Spec.ConsumerRef && item.ResourceType == request.ResourceType
		})
		if i < 0 {
			isUnknown = true
			continue
		}
		item := &items[i]
		lacking := request.Amount - max(0, item.Limit-item.Used)
		if lacking <= 0 {
			continue
		}
		short = append(short, amount{Title: item.Title, ResourceType: item.ResourceType, Text: item.Unit.Amount(lacking)})
		wish.namespace, wish.consumer = item.Namespace, item.Consumer
		wish.amounts = append(wish.amounts, wished{item.ResourceType, increase(item.Unit, lacking+item.OverLimit())})
	}
	return short, isUnknown, wish.URL()
}
