package quotareview

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/forecast"
)

// item is an object or an amount of a review. It gets a result with its decision.
type item struct {
	object       evaluator.Object
	generateName string
	resource     schema.GroupVersionResource
	operation    string
	changes      []change
	policies     []quotav1alpha1.ReviewedPolicy

	result  quotav1alpha1.ReviewResult
	message string
	causes  []quotav1alpha1.ReviewedCause
	// isUnenforced is set if the item passes only because the mode of a policy is not Enforce.
	isUnenforced bool
	// isMoving is set if the ledger does not hold the apparent charges of the object.
	isMoving bool
}

// change is a policy's change of charges. The policy is nil for amounts, and for deleted objects.
type change struct {
	forecast.Change
	policy *catalog.Policy
}

func (q *question) add(it *item, p *catalog.Policy, c forecast.Change) {
	c.Overdraft = !q.decides(p, it)
	it.changes = append(it.changes, change{c, p})
	it.matches(p)
}

// decides reports whether a policy may deny an item.
func (q *question) decides(p *catalog.Policy, it *item) bool {
	return p.Enforces() && !q.breaksGlass && (it.operation != operationUpdate || p.FollowsUpdates())
}

func (it *item) matches(p *catalog.Policy) {
	matching := quotav1alpha1.ReviewedPolicy{Name: p.Name, EnforcementMode: p.Mode}
	if !slices.Contains(it.policies, matching) {
		it.policies = append(it.policies, matching)
	}
}

// free adds that the object no longer has its charges.
func (it *item) free(held map[string]Held) {
	for _, h := range held {
		it.changes = append(it.changes, change{Change: forecast.Change{Consumer: h.Consumer, Before: h.Charges, Overdraft: true}})
	}
}

// unknown leaves the item without a decision. A denial stays.
func (it *item) unknown(why string) {
	if it.result != quotav1alpha1.ReviewResultDoesNotFit {
		it.result, it.message = quotav1alpha1.ReviewResultUnknown, why
	}
}

// deny denies the item. The causes of its warnings are none of the denial.
func (it *item) deny(why string, causes ...quotav1alpha1.ReviewedCause) {
	if it.result != quotav1alpha1.ReviewResultDoesNotFit {
		it.causes = nil
	}
	it.result, it.message = quotav1alpha1.ReviewResultDoesNotFit, why
	it.causes = append(it.causes, causes...)
}

// fail records a policy that is not applicable to the object. An enforcing policy then denies a create. It may deny
// an update, too, but this depends on the object before the update, and Bursar does not keep it.
func (q *question) fail(it *item, p *catalog.Policy, err error) {
	it.matches(p)
	text := fmt.Sprintf("ClaimCreationPolicy %s cannot be applied to this object: %v", p.Name, err)
	cause := quotav1alpha1.ReviewedCause{Type: quotav1alpha1.CausePolicyNotApplicable}
	switch {
	case !q.decides(p, it):
		it.warn(p, text+".", cause)
	case it.operation == operationUpdate:
		it.unknown(text)
	default:
		it.deny(text, cause)
	}
}

// warn adds a warning of a policy, with its causes. A deleted object has no policy.
func (it *item) warn(p *catalog.Policy, text string, causes ...quotav1alpha1.ReviewedCause) {
	if p == nil {
		return
	}
	it.message = strings.TrimSpace(it.message + " " + text)
	if it.result != quotav1alpha1.ReviewResultDoesNotFit {
		it.causes = append(it.causes, causes...)
	}
	if p.Enforces() && it.operation == operationUpdate && !p.FollowsUpdates() {
		it.message += fmt.Sprintf(" The update passes all the same, and counts: ClaimCreationPolicy %s does not review updates.", p.Name)
	}
	if !p.Enforces() {
		it.message += fmt.Sprintf(" This is not enforced yet: the mode of ClaimCreationPolicy %s is %s.", p.Name, p.Mode)
		it.isUnenforced = true
	}
}

// conclude sets the result by the decisions on the changes of an item.
func (q *question) conclude(it *item, decisions []ledger.Decision) {
	for i := range it.changes {
		c, d := &it.changes[i], decisions[i]
		switch {
		case d.Code == ledger.Admitted && len(d.Shortages) > 0:
			it.warn(c.policy, message.Exceeded(q.Catalog, c.Consumer, d.Shortages), causesOf(c.Consumer, d.Shortages)...)
		case d.Code == ledger.Admitted, d.Code == 0 && len(c.After) == 0:
		case d.Code == 0:
			it.isMoving = true
			it.unknown("the object is being changed right now: try again")
		case d.Code == ledger.Exceeded:
			it.lack(q.Catalog, c.Consumer, d.Shortages)
		default:
			it.impossible(c, d.Code)
		}
	}
	if it.result == "" {
		it.result = quotav1alpha1.ReviewResultFits
	}
}

// impossible records a change that no ledger can hold.
func (it *item) impossible(c *change, code ledger.Code) {
	why := message.Impossible(c.Consumer, code).Error()
	cause := quotav1alpha1.ReviewedCause{Type: quotav1alpha1.CausePolicyNotApplicable, ConsumerRef: &c.Consumer}
	if c.Overdraft {
		it.warn(c.policy, why, cause)
	} else {
		it.deny(why, cause)
	}
}

// lack denies the item for lack of a consumer's quota.
func (it *item) lack(c *catalog.Catalog, consumer quotav1alpha1.ConsumerRef, shortages []ledger.Shortage) {
	text := message.Exceeded(c, consumer, shortages)
	if it.result == quotav1alpha1.ReviewResultDoesNotFit {
		text = it.message + " " + text
	}
	it.deny(text, causesOf(consumer, shortages)...)
}

// causesOf returns the causes of a consumer's lack of quota.
func causesOf(consumer quotav1alpha1.ConsumerRef, shortages []ledger.Shortage) []quotav1alpha1.ReviewedCause {
	var causes []quotav1alpha1.ReviewedCause
	d := message.Of(consumer, shortages)
	for i := range d.Shortfalls {
		s := &d.Shortfalls[i]
		cause := quotav1alpha1.ReviewedCause{
			Type: quotav1alpha1.CauseQuotaExceeded, ConsumerRef: &consumer, ResourceType: s.ResourceType, Dimensions: s.Dimensions.Map(),
		}
		if s.IsUngranted() {
			cause.Type = quotav1alpha1.CauseNothingGranted
		}
		causes = append(causes, cause)
	}
	return causes
}
