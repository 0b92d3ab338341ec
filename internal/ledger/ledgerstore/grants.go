package ledgerstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
)

// SetGrants replaces the grants of a consumer by the result of active, so that its limits are their sums. active gets
// the present grants of the ledger. It must read all others from the API server, not from a cache. SetGrants calls it
// again if another process wrote the ledger in between: a stale view can never increase a limit. Calls for one consumer
// must not overlap.
//
// If the sums overflow, or another process may lead by now, SetGrants fails and changes nothing.
func (s *Store) SetGrants(ctx context.Context, consumer quotav1alpha1.ConsumerRef, active func(ctx context.Context, held []ledger.Grant) ([]ledger.Grant, error)) error {
	var failure error
	err := s.doVerified(ctx, consumer, func(ctx context.Context) (*operation, error) {
		var held []ledger.Grant
		err := s.do(ctx, consumer, &operation{apply: func(l *ledger.Ledger, _ bool) groupcommit.Effect {
			held = slices.Collect(l.Grants())
			return groupcommit.Nothing // setting the grants proves whether it is current
		}})
		if err != nil {
			return nil, err
		}
		grants, err := active(ctx, held)
		if err != nil {
			return nil, err
		}
		return &operation{
			makesRoom: true, growsCapacity: true,
			apply: func(l *ledger.Ledger, _ bool) groupcommit.Effect {
				if failure = s.checkLead(); failure != nil {
					return groupcommit.Nothing
				}
				var didChange bool
				l.NoteRemovals(s.removalsOf(l, grants))
				if didChange, failure = l.ReplaceGrants(grants); didChange {
					return groupcommit.Changed
				}
				return groupcommit.Unconfirmed
			},
		}, nil
	})
	if err == nil {
		err = failure
	}
	return err
}

// checkLead returns an error if another process may lead.
func (s *Store) checkLead() error {
	if s.Lead == nil {
		return nil
	}
	return s.Lead.Check()
}

// removalsOf returns who deleted the grants of a ledger, by UID and as far as known. Grants among others still exist.
func (s *Store) removalsOf(l *ledger.Ledger, others []ledger.Grant) map[string]string {
	if s.Journal == nil || s.Deletions == nil {
		return nil
	}
	removals := map[string]string{}
	for g := range l.Grants() {
		isRemoved := !slices.ContainsFunc(others, func(other ledger.Grant) bool { return other.UID == g.UID })
		if user := s.Deletions.DeletedBy(g.UID); isRemoved && user != "" {
			removals[g.UID] = user
		}
	}
	return removals
}

// GrantOf returns a grant in the form of the ledger, with its allowances at a time. An error names the allowance with
// an invalid selector or an overflowing amount.
func GrantOf(grant *quotav1alpha1.ResourceGrant, now time.Time) (ledger.Grant, error) {
	entry := ledger.Grant{
		UID: string(grant.UID), Namespace: grant.Namespace, Name: grant.Name, Generation: grant.Generation,
	}
	active := apimeta.FindStatusCondition(grant.Status.Conditions, quotav1alpha1.ConditionActive)
	if active == nil || active.Status != metav1.ConditionTrue || active.ObservedGeneration != grant.Generation {
		// Once it is active, its amounts change by themselves, such as at the end of an allowance's period.
		entry.ChangedBy = grant.Annotations[quotav1alpha1.AnnotationChangedBy]
	}
	for i := range grant.Spec.Allowances {
		allowance := &grant.Spec.Allowances[i]
		selector, err := SelectorOf(allowance.DimensionSelector)
		if err != nil {
			return entry, fmt.Errorf("allowance of %s: %w", allowance.ResourceType, err)
		}
		var sum ledger.Amount
		for _, bucket := range allowance.Buckets {
			var ok bool
			if sum, ok = sum.Add(ledger.Amount(bucket.Amount)); !ok {
				return entry, fmt.Errorf("the buckets of %s add up to more than can be counted", allowance.ResourceType)
			}
		}
		if grant.Spec.Counts(allowance, now) {
			entry.Allowances = append(entry.Allowances, ledger.Allowance{ResourceType: allowance.ResourceType, Selector: selector, Amount: sum})
		}
	}
	return entry, nil
}
