// Package caution warns authors of grants, claims, policies and registrations of unexpected effects. It rejects
// nothing, because the author may intend the effect, or the object may become right later. It omits a warning if it
// cannot check the facts in time. Package validate calls it through an interface.
package caution

import (
	"context"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/ledger"
)

// adviceTimeout bounds how long a write waits for warnings.
const adviceTimeout = time.Second

// Permission looks up Bursar's own permissions. Each method returns the reason why Bursar may not, or "".
type Permission interface {
	// Follow is about reading all objects of a resource, and Get about looking up single ones.
	Follow(ctx context.Context, resource schema.GroupVersionResource) (string, error)
	Get(ctx context.Context, resource schema.GroupVersionResource) (string, error)
}

// Users looks up the permissions of users.
type Users interface {
	// MayRead reports whether a user may get the objects of a kind.
	MayRead(ctx context.Context, user authenticationv1.UserInfo, kind schema.GroupVersionKind) (bool, error)
}

// Objects looks up objects of all kinds.
type Objects interface {
	// Exists reports whether an object of that name exists; an empty UID stands for any.
	Exists(ctx context.Context, resource schema.GroupVersionResource, name types.NamespacedName, uid types.UID) (bool, error)
}

// Ledgers reads the ledgers of all consumers.
type Ledgers interface {
	// View calls f with the ledger of a consumer.
	View(ctx context.Context, consumer quotav1alpha1.ConsumerRef, f func(*ledger.Ledger)) error
}

// Adviser returns warnings. Set its fields once, before use. It is then safe for concurrent use, if they are.
type Adviser struct {
	// Mapper maps kinds to resources, with their scope.
	Mapper apimeta.RESTMapper
	// Permission has Bursar's own permissions, and Users those of users.
	Permission Permission
	Users      Users
	Objects    Objects
	Ledgers    Ledgers
	// Registrations are the active registrations.
	Registrations message.Registrations
	// Clock is the API server's clock.
	Clock Clock
}

// Clock has the time of the API server.
type Clock interface {
	Now() time.Time
}

// Grant warns of a created (old is nil), changed or deleted (new is nil) grant.
func (a *Adviser) Grant(ctx context.Context, user authenticationv1.UserInfo, old, new *quotav1alpha1.ResourceGrant) []string {
	ctx, cancel := context.WithTimeout(ctx, adviceTimeout)
	defer cancel()
	switch {
	case new == nil:
		return append(a.revertedByPolicy(old, "will create it again"), a.belowUse(ctx, old, nil)...)
	case old != nil && equality.Semantic.DeepEqual(old.Spec, new.Spec):
		return nil
	}
	warnings := a.revertedByPolicy(old, "will undo the change")
	if old == nil || old.Spec.ConsumerRef != new.Spec.ConsumerRef {
		scope := a.Consumer(new.Spec.ConsumerRef)
		warnings = append(warnings, scope...)
		if len(scope) == 0 {
			warnings = append(warnings, a.missingConsumer(ctx, user, new.Spec.ConsumerRef)...)
		}
	}
	if old != nil {
		warnings = append(warnings, a.belowUse(ctx, old, new)...)
	}
	if new.Spec.HasEnded(a.Clock.Now()) {
		warnings = append(warnings, "spec.notAfter is in the past, so the grant does not count")
	}
	return warnings
}

// revertedByPolicy warns if a policy reverts changes to its own grant. remedy names how.
func (a *Adviser) revertedByPolicy(old *quotav1alpha1.ResourceGrant, remedy string) []string {
	if old == nil || old.Labels[quotav1alpha1.LabelAutoCreated] != "true" {
		return nil
	}
	policy := old.Labels[quotav1alpha1.LabelPolicy]
	return []string{fmt.Sprintf("GrantCreationPolicy %s makes this grant from its template, and %s; change the policy instead", policy, remedy)}
}

// Claim warns of a directly created claim.
func (a *Adviser) Claim(ctx context.Context, claim *quotav1alpha1.ResourceClaim) []string {
	ctx, cancel := context.WithTimeout(ctx, adviceTimeout)
	defer cancel()
	warnings := a.Consumer(claim.Spec.ConsumerRef)
	if !claim.Spec.HasObject() {
		return warnings
	}
	ref := claim.Spec.ResourceRef
	if ref.APIGroup == "" && ref.Kind == "Namespace" && ref.Name == claim.Namespace {
		return warnings // no claim waits for its own namespace
	}
	mapping, err := a.Mapper.RESTMapping(schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind})
	if err != nil {
		return warnings // an unserved kind has no objects
	}
	if reason, err := a.Permission.Get(ctx, mapping.Resource); err == nil && reason != "" {
		warnings = append(warnings, fmt.Sprintf("when somebody deletes this claim, Bursar returns its charge although %s %s may still exist: %s", ref.Kind, ref.Name, reason))
	}
	return warnings
}

// Consumer warns of a reference with a namespace to a cluster-scoped kind, or without one to a namespaced kind. No
// object matches such a reference.
func (a *Adviser) Consumer(ref quotav1alpha1.ConsumerRef) []string {
	if !strings.Contains(ref.Name, "{{") && strings.ContainsAny(ref.Name, "{}") {
		return []string{fmt.Sprintf("consumerRef.name %q is not a template, and no object has such a name: write templates in double braces, such as {{.trigger.metadata.namespace}}", ref.Name)}
	}
	if strings.Contains(ref.APIGroup+ref.Kind, "{{") {
		return nil
	}
	mapping, err := a.Mapper.RESTMapping(schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind})
	if err != nil {
		return nil // the registration reports unserved kinds
	}
	isNamespaced := mapping.Scope.Name() == apimeta.RESTScopeNameNamespace
	switch {
	case isNamespaced && ref.Namespace == "":
		return []string{fmt.Sprintf("consumerRef.namespace is not set, but kind %s is namespaced: no object of that kind is this consumer; set the namespace of the object", ref.Kind)}
	case !isNamespaced && ref.Namespace != "":
		return []string{fmt.Sprintf("consumerRef.namespace is set, but kind %s is cluster-scoped: %s %s with a namespace is a different consumer than without, and "+
			"has quota of its own; leave the namespace out unless all references have it", ref.Kind, ref.Kind, ref.Name)}
	default:
		return nil
	}
}

// missingConsumer warns of a consumer without an object, if the user may know.
func (a *Adviser) missingConsumer(ctx context.Context, user authenticationv1.UserInfo, ref quotav1alpha1.ConsumerRef) []string {
	mapping, err := a.Mapper.RESTMapping(schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind})
	if err != nil {
		return nil
	}
	if reason, err := a.Permission.Follow(ctx, mapping.Resource); err != nil || reason != "" {
		return nil
	}
	if may, err := a.Users.MayRead(ctx, user, mapping.GroupVersionKind); err != nil || !may {
		return nil
	}
	exists, err := a.Objects.Exists(ctx, mapping.Resource, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, "")
	if err != nil || exists {
		return nil
	}
	return []string{fmt.Sprintf("%s does not exist: check the name; the grant counts anyway", message.Consumer(ref))}
}

// belowUse warns if the change or deletion of a grant lowers a consumer's limit below its use.
func (a *Adviser) belowUse(ctx context.Context, old, new *quotav1alpha1.ResourceGrant) []string {
	if !apimeta.IsStatusConditionTrue(old.Status.Conditions, quotav1alpha1.ConditionActive) {
		return nil
	}
	before, after := a.sums(old), map[string]ledger.Amount{}
	if new != nil && new.Spec.ConsumerRef == old.Spec.ConsumerRef {
		after = a.sums(new)
	}
	accounts := map[string]ledger.Account{}
	err := a.Ledgers.View(ctx, old.Spec.ConsumerRef, func(current *ledger.Ledger) {
		clear(accounts)
		for resourceType := range before {
			accounts[resourceType] = current.Account(resourceType)
		}
	})
	if err != nil {
		return nil
	}
	var warnings []string
	for _, resourceType := range old.Spec.ResourceTypes() {
		account, seen := accounts[resourceType]
		delete(accounts, resourceType) // once each
		less := before[resourceType] - after[resourceType]
		limit, used := account.Limit-less, account.Used+account.Reserved
		r := a.Registrations.Registration(resourceType)
		if !seen || less <= 0 || limit >= used || r == nil {
			continue
		}
		warnings = append(warnings, fmt.Sprintf("the limit of %s for %s becomes %s, below the %s in use: Bursar takes nothing back, and grants nothing new until usage is below the limit",
			message.Consumer(old.Spec.ConsumerRef), resourceType, message.Amount(max(limit, 0), r), message.Amount(used, r)))
	}
	return warnings
}

// sums returns the amounts of a grant in effect now, by resource type.
func (a *Adviser) sums(grant *quotav1alpha1.ResourceGrant) map[string]ledger.Amount {
	sums := map[string]ledger.Amount{}
	now := a.Clock.Now()
	for i := range grant.Spec.Allowances {
		allowance := &grant.Spec.Allowances[i]
		if !grant.Spec.Counts(allowance, now) {
			continue
		}
		for _, bucket := range allowance.Buckets {
			sums[allowance.ResourceType], _ = sums[allowance.ResourceType].Add(ledger.Amount(bucket.Amount))
		}
	}
	return sums
}

// Registration warns of unserved kinds that are new in claimingResources.
func (a *Adviser) Registration(old, new *quotav1alpha1.ResourceRegistration) []string {
	known := map[quotav1alpha1.ClaimingResource]bool{}
	if old != nil {
		for _, claiming := range old.Spec.ClaimingResources {
			known[claiming] = true
		}
	}
	var warnings []string
	for i, claiming := range new.Spec.ClaimingResources {
		kind := schema.GroupKind{Group: claiming.APIGroup, Kind: claiming.Kind}
		if _, err := a.Mapper.RESTMapping(kind); !known[claiming] && apimeta.IsNoMatchError(err) {
			warnings = append(warnings, fmt.Sprintf("spec.claimingResources[%d]: kind %s is not served by this API server so far; check apiGroup and kind", i, kind))
		}
	}
	return warnings
}
