package tenant

import (
	"cmp"
	"encoding/json"
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/console/overview"
	"github.com/bursar/bursar/internal/console/web"
)

// waitingMax bounds the claims on the page.
const waitingMax = 200

// waitingPage shows the claims that wait for quota.
type waitingPage struct {
	scope
	Forbidden string
	Queues    []queue
	// Total is how many claims wait, of which the page shows the first ones.
	Total int
	IsCut bool
	// ReadMax is how many claims were read if there are more, or 0.
	ReadMax int
}

// queue has the waiting claims of a consumer, in the order of decision.
type queue struct {
	Consumer, ConsumerURL string
	// MayHaveOthers is set if claims of the consumer may be in namespaces that the person may not see.
	MayHaveOthers bool
	Rows          []waitingRow
}

// waitingRow is a claim that waits.
type waitingRow struct {
	row
	Position int
	// Short are the amounts that are lacking. It is empty if there is room.
	Short []amount
	// IsUnknown is set if some of the quota is not shown, so that more may be lacking.
	IsUnknown bool
	// AskURL asks for what is lacking.
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
	found, err := s.readClaims(r.Context(), r.API())
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
		w := waitingRow{row: p.rowOf(claim, quotas)}
		if len(p.Queues) == 0 || p.Queues[len(p.Queues)-1].ConsumerURL != w.ConsumerURL {
			p.Queues = append(p.Queues, queue{Consumer: w.Consumer, ConsumerURL: w.ConsumerURL, MayHaveOthers: !found.isWhole})
		}
		q := &p.Queues[len(p.Queues)-1]
		w.Position = len(q.Rows) + 1
		w.Short, w.IsUnknown, w.AskURL = shortOf(claim, quotas.Items)
		q.Rows = append(q.Rows, w)
	}
}

// needOf returns the amounts that a claim waits for: what it asks for, or what a resize adds to it.
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

// shortOf returns what a claim lacks, and the page that asks for it.
func shortOf(claim *quotav1alpha1.ResourceClaim, items []overview.Item) (short []amount, isUnknown bool, ask string) {
	ref := objectOf(claim)
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
