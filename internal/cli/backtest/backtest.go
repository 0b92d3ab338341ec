// Package backtest finds the existing objects that a policy would have denied, had it enforced from the start. It reads
// with the permissions of its user. Commands and the console import it.
package backtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/forecast"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/usage"
)

// pageSize is the number of objects in one read.
const pageSize = 500

// Result is the outcome for a policy that had enforced from the start. Amounts are in base units.
type Result struct {
	// Policy is the name of the policy, and Mode its present mode.
	Policy string                        `json:"policy"`
	Mode   quotav1alpha1.EnforcementMode `json:"enforcementMode"`
	// Objects is how many objects the policy charges now.
	Objects int `json:"objects"`
	// NotApplicable is how many more objects there are to which the policy, without claims, cannot be applied.
	NotApplicable int `json:"notApplicable,omitempty"`
	// Denied are the objects that the policy would have denied, in the order of their claims.
	Denied []Denied `json:"denied,omitempty"`
	// Lacking are the quotas too small for the existing objects, sorted by consumer and resource type.
	Lacking []Lacking `json:"lacking,omitempty"`

	// types has the units in which Print shows amounts.
	types types
}

// Denied is an object that the policy would have denied.
type Denied struct {
	Object      quotav1alpha1.UnversionedObjectReference `json:"object"`
	ConsumerRef quotav1alpha1.ConsumerRef                `json:"consumerRef"`
	// ClaimedAt is the creation time of its claim, or of the object if it counts without a claim.
	ClaimedAt    metav1.Time       `json:"claimedAt"`
	ResourceType string            `json:"resourceType"`
	Dimensions   map[string]string `json:"dimensions,omitempty"`
	Requested    int64             `json:"requested"`
	// Used is the use before this object, of Limit.
	Used  int64 `json:"used"`
	Limit int64 `json:"limit"`
}

// Lacking is a quota too small for the existing objects.
type Lacking struct {
	ConsumerRef  quotav1alpha1.ConsumerRef `json:"consumerRef"`
	ResourceType string                    `json:"resourceType"`
	Limit        int64                     `json:"limit"`
	// Needed is the smallest limit without a denial, unless a selector of an allowance excludes an object.
	Needed int64 `json:"needed"`
}

// ErrTooMany reports more claims and objects than a backtest may read.
var ErrTooMany = errors.New("there are too many claims and objects")

// Run replays the claims of all consumers charged by a policy, oldest first, under the present grants. It decides the
// claims of the policy as if the policy enforced, and charges all others without a decision. For a policy without
// claims, what each existing object demands now stands for its claim. Beyond readMax claims and objects Run returns
// [ErrTooMany]. 0 is no bound.
func Run(ctx context.Context, api client.Reader, policy string, readMax int) (*Result, error) {
	declared := &quotav1alpha1.ClaimCreationPolicy{}
	if err := api.Get(ctx, client.ObjectKey{Name: policy}, declared); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("there is no ClaimCreationPolicy %q: kubectl get claimcreationpolicies lists them", policy)
		}
		return nil, fmt.Errorf("read ClaimCreationPolicy %s: %w", policy, err)
	}

	result := &Result{Policy: policy, Mode: cmp.Or(declared.Spec.EnforcementMode, quotav1alpha1.EnforcementModeEnforce)}
	var err error
	if result.types, err = typesOf(ctx, api); err != nil {
		return nil, err
	}

	found, err := collect(ctx, api, declared, result.types, readMax)
	if err != nil {
		return nil, err
	}
	result.NotApplicable = found.failed
	if err := addGrants(ctx, api, found.consumers); err != nil {
		return nil, err
	}

	for _, c := range sorted(found.consumers) {
		c.types = result.types
		if err := c.replay(ctx, result, claims.LabelValue(policy)); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(result.Denied, func(a, b Denied) int { return a.ClaimedAt.Compare(b.ClaimedAt.Time) })
	return result, nil
}

// consumer is a consumer charged by the policy.
type consumer struct {
	ref    quotav1alpha1.ConsumerRef
	claims []quotav1alpha1.ResourceClaim
	grants []ledger.Grant
	types  ledger.Types
}

// types are the registrations by resource type.
type types map[string]quotav1alpha1.ResourceRegistrationSpec

// IsCountedOnly implements [ledger.Types].
func (t types) IsCountedOnly(resourceType string) bool { return t[resourceType].Type.IsCountedOnly() }

// BaseUnit implements [policy.Units].
func (t types) BaseUnit(resourceType string) string { return t[resourceType].BaseUnit }

// unit returns the display unit of a resource type.
func (t types) unit(resourceType string) usage.Unit {
	spec := t[resourceType]
	return usage.Unit{Name: spec.DisplayUnit, Factor: spec.UnitConversionFactor, Base: spec.BaseUnit}
}

// typesOf reads the registrations.
func typesOf(ctx context.Context, api client.Reader) (types, error) {
	found := types{}
	err := each(ctx, api, "registrations", func(list *quotav1alpha1.ResourceRegistrationList) error {
		for i := range list.Items {
			found[list.Items[i].Spec.ResourceType] = list.Items[i].Spec
		}
		return nil
	})
	return found, err
}

// collection collects the granted claims of all consumers, until those that a policy charges are known.
type collection struct {
	consumers map[quotav1alpha1.ConsumerRef]*consumer
	charged   map[quotav1alpha1.ConsumerRef]bool
	label     string
	// read is how many claims and counted objects were read, of at most readMax, or of any number if that is 0.
	read, readMax int
	// failed is how many objects the policy cannot be applied to.
	failed int
}

// collect returns the consumers charged by a policy, with all their granted claims, and with what objects demand
// that count without claims.
func collect(ctx context.Context, api client.Reader, tested *quotav1alpha1.ClaimCreationPolicy, types types, readMax int) (*collection, error) {
	c := &collection{
		consumers: map[quotav1alpha1.ConsumerRef]*consumer{}, charged: map[quotav1alpha1.ConsumerRef]bool{},
		label: claims.LabelValue(tested.Name), readMax: readMax,
	}
	err := each(ctx, api, "claims", func(list *quotav1alpha1.ResourceClaimList) error {
		for i := range list.Items {
			if claim := &list.Items[i]; claimcache.StateOf(claim) == claimcache.Granted {
				c.add(claim)
			}
		}
		return c.count(len(list.Items))
	})
	if err != nil {
		return nil, err
	}
	if err := c.addCounted(ctx, api, tested, types); err != nil {
		return nil, err
	}

	for ref := range c.consumers {
		if !c.charged[ref] {
			delete(c.consumers, ref)
		}
	}
	return c, nil
}

// count returns [ErrTooMany] if there are too many with n more.
func (c *collection) count(n int) error {
	if c.read += n; c.readMax > 0 && c.read > c.readMax {
		return ErrTooMany
	}
	return nil
}

func (c *collection) add(claim *quotav1alpha1.ResourceClaim) {
	ref := claim.Spec.ConsumerRef
	if c.consumers[ref] == nil {
		c.consumers[ref] = &consumer{ref: ref}
	}
	c.consumers[ref].claims = append(c.consumers[ref].claims, *claim)
	c.charged[ref] = c.charged[ref] || claims.PolicyOf(claim) == c.label
}

// createdAt returns the creation time of a claim or, for a view, of its object.
func createdAt(claim *quotav1alpha1.ResourceClaim) metav1.Time {
	if claims.IsView(claim) {
		if at, err := time.Parse(time.RFC3339, claim.Annotations[quotav1alpha1.AnnotationCreatedAt]); err == nil {
			return metav1.NewTime(at)
		}
	}
	return claim.CreationTimestamp
}

// addGrants adds the active grants of the consumers.
func addGrants(ctx context.Context, api client.Reader, all map[quotav1alpha1.ConsumerRef]*consumer) error {
	return each(ctx, api, "grants", func(list *quotav1alpha1.ResourceGrantList) error {
		for i := range list.Items {
			grant := &list.Items[i]
			c := all[grant.Spec.ConsumerRef]
			if c == nil || !apimeta.IsStatusConditionTrue(grant.Status.Conditions, quotav1alpha1.ConditionActive) {
				continue
			}
			entry, err := ledgerstore.GrantOf(grant, time.Now())
			if err != nil {
				return fmt.Errorf("ResourceGrant %s/%s: %w", grant.Namespace, grant.Name, err)
			}
			c.grants = append(c.grants, entry)
		}
		return nil
	})
}

// each calls f with the pages of a list, until it returns an error.
func each[L any, P interface {
	*L
	client.ObjectList
}](ctx context.Context, api client.Reader, what string, f func(P) error) error {
	for next := ""; ; {
		page := P(new(L))
		if err := api.List(ctx, page, client.Limit(pageSize), client.Continue(next)); err != nil {
			return fmt.Errorf("list the %s in all namespaces: %w", what, err)
		}
		if err := f(page); err != nil {
			return err
		}
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
}

func sorted(all map[quotav1alpha1.ConsumerRef]*consumer) []*consumer {
	var consumers []*consumer
	for _, c := range all {
		slices.SortFunc(c.claims, func(a, b quotav1alpha1.ResourceClaim) int {
			return cmp.Or(createdAt(&a).Compare(createdAt(&b).Time), cmp.Compare(a.Spec.ResourceRef.Name, b.Spec.ResourceRef.Name), cmp.Compare(a.UID, b.UID))
		})
		consumers = append(consumers, c)
	}
	slices.SortFunc(consumers, func(a, b *consumer) int { return cmp.Compare(fmt.Sprint(a.ref), fmt.Sprint(b.ref)) })
	return consumers
}

// replay decides the claims of a consumer again.
func (c *consumer) replay(ctx context.Context, result *Result, policy string) error {
	now, whole := forecast.Forecast{Ledgers: c}, forecast.Forecast{Ledgers: c} // whole has all existing objects
	lacks := map[string]bool{}
	for i := range c.claims {
		claim := &c.claims[i]
		charges, err := claims.Charges(claim.Spec.Requests)
		if err != nil {
			return fmt.Errorf("claim %s/%s: %w", claim.Namespace, claim.Name, err)
		}

		isOther := claims.PolicyOf(claim) != policy
		if _, err := c.create(ctx, &whole, charges, true); err != nil {
			return err
		}
		decision, err := c.create(ctx, &now, charges, isOther)
		if err != nil {
			return err
		}
		if isOther {
			continue
		}

		result.Objects++
		switch decision.Code {
		case ledger.Admitted:
			continue
		case ledger.Exceeded:
		default:
			return message.Impossible(c.ref, decision.Code)
		}

		s := decision.Shortages[0]
		lacks[s.ResourceType] = true
		result.Denied = append(result.Denied, Denied{
			Object: claim.Spec.ResourceRef, ConsumerRef: c.ref, ClaimedAt: createdAt(claim), ResourceType: s.ResourceType,
			Dimensions: s.Dimensions.Map(), Requested: int64(s.Requested), Used: int64(s.Used), Limit: int64(s.Limit),
		})
	}

	_, outcome, err := whole.Outcome(ctx, c.ref)
	if err != nil {
		return err
	}
	for _, resourceType := range slices.Sorted(maps.Keys(lacks)) {
		a := outcome.Account(resourceType)
		result.Lacking = append(result.Lacking, Lacking{ConsumerRef: c.ref, ResourceType: resourceType, Limit: int64(a.Limit), Needed: int64(max(a.Limit, a.Used))})
	}
	return nil
}

// create decides the create of an object with some charges.
func (c *consumer) create(ctx context.Context, f *forecast.Forecast, charges []ledger.Charge, isOverdraft bool) (ledger.Decision, error) {
	const freesLast = true // an object that is denied is not tried again
	object := []forecast.Change{{Consumer: c.ref, After: charges, Overdraft: isOverdraft}}
	decisions, err := f.Decide(ctx, [][]forecast.Change{object}, freesLast)
	if err != nil {
		return ledger.Decision{}, err
	}
	return decisions[0][0], nil
}

// Ledger implements [forecast.Ledgers]: it has the grants of the consumer, and nothing in use.
func (c *consumer) Ledger(context.Context, quotav1alpha1.ConsumerRef) (*ledger.Ledger, error) {
	l := ledger.New()
	l.SetTypes(c.types)
	_, err := l.ReplaceGrants(c.grants)
	return l, err
}
