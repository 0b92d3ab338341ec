package validate

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/review"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/policy"
)

const (
	bucketIsBursars         = "buckets are made by Bursar, one for each consumer and resource type that a grant or a claim names"
	effectiveGrantIsBursars = "effective grants are made by Bursar, one for each consumer and resource type that a grant or a claim names;" +
		" to change what a consumer may use, change its ResourceGrants"
	localIsBursars  = "local allocations are made by Bursar, to show in a namespace how much is left of a ResourceQuotaAllocation; change that instead"
	ledgerIsBursars = "ledgers are written only by Bursar; to change what a consumer may use, change its ResourceGrants"

	allocationLedgerIsBursars = "ledgers are written only by Bursar; to change what ResourceQuotas may give, change the ResourceQuotaAllocation"
)

// markVerb is the verb that the Bursar of another control plane needs on grants here, to mark them as a policy's.
const markVerb = "mark"

// validator validates a request. An error means an unreadable request.
type validator func(ctx context.Context, request *admissionv1.AdmissionRequest) (result, error)

// change is the effect of a request on an object of type T: old is nil on a create, new on a delete.
type change[T any] struct {
	old, new *T
	user     authenticationv1.UserInfo
	username string
	byBursar bool
	isDryRun bool
	// isVersioned is set for a delete of only one version of the object.
	isVersioned bool
}

// validators returns the validator of every kind.
func (w *Webhooks) validators() map[schema.GroupVersionKind]validator {
	own := quotav1alpha1.GroupVersion.WithKind
	return map[schema.GroupVersionKind]validator{
		own("ResourceRegistration"):   validatorOf(w.Username, w.registration),
		own("ResourceGrant"):          validatorOf(w.Username, w.grant),
		own("ResourceClaim"):          validatorOf(w.Username, w.claim),
		own("AllowanceBucket"):        validatorOf(w.Username, w.bucket),
		own("EffectiveResourceGrant"): validatorOf(w.Username, w.effectiveGrant),
		own("ClaimCreationPolicy"):    validatorOf(w.Username, w.claimPolicy),
		own("GrantCreationPolicy"):    validatorOf(w.Username, w.grantPolicy),
		own("ConsumerLedger"):         validatorOf(w.Username, w.ledger),
		own("QuotaAlert"):             validatorOf(w.Username, w.quotaAlert),
		own("QuotaRequest"):           validatorOf(w.Username, w.quotaRequest),
		own("QuotaDecision"):          validatorOf(w.Username, w.quotaDecision),
		own("QuotaRequestPolicy"):     validatorOf(w.Username, w.quotaRequestPolicy),

		own("ResourceQuotaAllocation"):                              validatorOf(w.Username, w.allocation),
		own("LocalResourceQuotaAllocation"):                         validatorOf(w.Username, w.localAllocation),
		own("AllocationLedger"):                                     validatorOf(w.Username, w.allocationLedger),
		openmcpv1alpha1.GroupVersion.WithKind("QuotaIncrease"):      validatorOf(w.Username, w.quotaIncrease),
		openmcpv1alpha1.GroupVersion.WithKind("QuotaServiceConfig"): validatorOf(w.Username, w.quotaServiceConfig),

		corev1.SchemeGroupVersion.WithKind("Namespace"):     validatorOf(w.Username, w.namespace),
		corev1.SchemeGroupVersion.WithKind("ResourceQuota"): validatorOf(w.Username, w.generatedQuota),
	}
}

// validatorOf decodes the objects of a request for validate.
func validatorOf[T any](username string, decide func(context.Context, change[T]) result) validator {
	return func(ctx context.Context, request *admissionv1.AdmissionRequest) (result, error) {
		c := change[T]{user: request.UserInfo, username: request.UserInfo.Username, byBursar: request.UserInfo.Username == username, isDryRun: review.IsDryRun(request)}
		var err error
		switch request.Operation {
		case admissionv1.Create:
			c.new, err = decode[T](request.Object)
		case admissionv1.Update:
			if c.old, err = decode[T](request.OldObject); err == nil {
				c.new, err = decode[T](request.Object)
			}
		case admissionv1.Delete:
			c.old, err = decode[T](request.OldObject)
			c.isVersioned = isVersioned(request)
		default:
			err = fmt.Errorf("there is no validation of objects for operation %q", request.Operation)
		}
		if err != nil {
			return result{}, err
		}
		return decide(ctx, c), nil
	}
}

func (w *Webhooks) registration(ctx context.Context, c change[quotav1alpha1.ResourceRegistration]) result {
	if c.new == nil {
		return w.registrationDeletion(ctx, c)
	}
	var taken string
	if c.old == nil {
		var err error
		if taken, err = w.Registrations.RegisteredBy(ctx, c.new.Spec.ResourceType); err != nil {
			return result{unknown: fmt.Errorf("find out whether resource type %q is registered: %w", c.new.Spec.ResourceType, err)}
		}
	}
	if errs := Registration(c.old, c.new, taken); len(errs) > 0 {
		return result{errs: errs}
	}
	if c.old != nil {
		if v := w.baseUnitChange(ctx, c); v.unknown != nil || len(v.errs) > 0 {
			return v
		}
		if v := w.registrationRelease(ctx, c); v.unknown != nil || v.forbidden != "" {
			return v
		}
	}
	return result{warnings: w.Advice.Registration(c.old, c.new)}
}

// baseUnitChange rejects another base unit while stored amounts have the present one.
func (w *Webhooks) baseUnitChange(ctx context.Context, c change[quotav1alpha1.ResourceRegistration]) result {
	if c.old.Spec.BaseUnit == c.new.Spec.BaseUnit {
		return result{}
	}
	user, err := w.Registrations.AmountsOf(ctx, c.old.Spec.ResourceType)
	switch {
	case err != nil:
		return result{unknown: fmt.Errorf("find amounts of resource type %q: %w", c.old.Spec.ResourceType, err)}
	case user != "":
		return result{errs: field.ErrorList{field.Invalid(field.NewPath("spec", "baseUnit"), c.new.Spec.BaseUnit,
			fmt.Sprintf("amounts are stored in the base unit %q: %s; correct displayUnit and unitConversionFactor instead, or delete that first", c.old.Spec.BaseUnit, user))}}
	default:
		return result{}
	}
}

func (w *Webhooks) grant(ctx context.Context, c change[quotav1alpha1.ResourceGrant]) result {
	if c.new == nil {
		return w.grantDeletion(ctx, c)
	}

	errs := append(Grant(c.old, c.new), checkChangedBy(c)...)
	if marks := GrantMarks(c.old, c.new); len(marks) > 0 && !c.byBursar {
		may, err := w.Permissions.May(ctx, c.user, authorizationv1.ResourceAttributes{
			Namespace: c.new.Namespace, Verb: markVerb, Group: quotav1alpha1.GroupName, Resource: "resourcegrants",
		})
		if err != nil {
			return result{unknown: fmt.Errorf("find out whether user %q may mark grants as a policy's: %w", c.username, err)}
		}
		if !may {
			errs = append(errs, marks...)
		}
	}

	if len(errs) > 0 {
		return result{errs: errs}
	}
	if v := w.checkNew(grantTypes(c.old), grantTypes(c.new)); v.forbidden != "" {
		return v
	}
	if !c.byBursar { // a policy's grant waits for another cap
		if errs := w.checkCaps(c.old, c.new); len(errs) > 0 {
			return result{errs: errs}
		}
	}

	warnings := w.Advice.Grant(ctx, c.user, c.old, c.new)
	if err := w.Catalog.CheckGrant(&c.new.Spec); err != nil {
		warnings = append(warnings, fmt.Sprintf("the grant does not count yet: %v", err))
	}
	return result{warnings: warnings}
}

func (w *Webhooks) claim(ctx context.Context, c change[quotav1alpha1.ResourceClaim]) result {
	if c.new == nil {
		return w.claimDeletion(ctx, c)
	}
	if errs := Claim(c.old, c.new, c.byBursar); len(errs) > 0 || c.old != nil {
		return result{errs: errs}
	}
	if v := w.checkNew(nil, c.new.Spec.ResourceTypes()); v.forbidden != "" {
		return v
	}
	var warnings []string
	if !c.byBursar {
		warnings = w.Advice.Claim(ctx, c.new)
	}
	if err := w.Catalog.CheckClaim(&c.new.Spec); err != nil {
		warnings = append(warnings, fmt.Sprintf("the claim cannot be granted yet: %v", err))
	}
	return result{warnings: warnings}
}

func (w *Webhooks) bucket(_ context.Context, c change[quotav1alpha1.AllowanceBucket]) result {
	if c.new == nil {
		return result{} // Bursar makes it again while it is needed.
	}
	if c.old == nil && !c.byBursar {
		return result{forbidden: bucketIsBursars}
	}
	return result{errs: Bucket(c.old, c.new)}
}

func (w *Webhooks) effectiveGrant(_ context.Context, c change[quotav1alpha1.EffectiveResourceGrant]) result {
	if c.new == nil {
		return result{} // Bursar makes it again while it is needed.
	}
	if c.old == nil && !c.byBursar {
		return result{forbidden: effectiveGrantIsBursars}
	}
	return result{errs: EffectiveGrant(c.old, c.new)}
}

func (w *Webhooks) claimPolicy(ctx context.Context, c change[quotav1alpha1.ClaimCreationPolicy]) result {
	if c.new == nil {
		return result{warnings: append(w.warnClaimsStay(c.old), w.warnStopsCounting(c.old, nil)...)}
	}

	if errs := ClaimPolicy(c.old, c.new); len(errs) > 0 {
		return result{errs: errs}
	}
	if v := w.checkNew(claimPolicyTypes(c.old), claimPolicyTypes(c.new)); v.forbidden != "" {
		return v
	}

	warnings := w.warnStopsCounting(c.old, c.new)
	if c.old == nil || !equality.Semantic.DeepEqual(c.old.Spec, c.new.Spec) {
		resource := c.new.Spec.Trigger.Resource
		if v := w.mayRead(ctx, c.user, schema.FromAPIVersionAndKind(resource.APIVersion, resource.Kind)); v.unknown != nil || v.forbidden != "" {
			return v
		}
		warnings = slices.Concat(warnings, claimTemplateWarnings(c.new), annotationsOfRecord(c.new), w.Advice.Consumer(c.new.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef),
			w.Previewer.ClaimPolicy(ctx, c.new), policy.PayerFromObject(c.new), w.Advice.SystemObjects(ctx, c.new))
	}
	if c.new.IsEnabled() {
		if err := w.Catalog.CheckPolicy(c.new); err != nil {
			warnings = append(warnings, notReadyYet(err))
		}
		if err := w.Catalog.CheckClaiming(c.new); err != nil {
			warnings = append(warnings, fmt.Sprintf("the policy cannot be applied yet: %v", err))
		}
	}
	return result{warnings: warnings}
}

func (w *Webhooks) grantPolicy(ctx context.Context, c change[quotav1alpha1.GrantCreationPolicy]) result {
	if c.new == nil {
		return result{warnings: w.warnGrantsDeleted(ctx, c.old)}
	}
	if errs := GrantPolicy(c.old, c.new); len(errs) > 0 {
		return result{errs: errs}
	}
	if v := w.checkNew(grantPolicyTypes(c.old), grantPolicyTypes(c.new)); v.forbidden != "" {
		return v
	}
	var warnings []string
	if c.old == nil || !equality.Semantic.DeepEqual(c.old.Spec, c.new.Spec) {
		resource := c.new.Spec.Trigger.Resource
		if v := w.mayRead(ctx, c.user, schema.FromAPIVersionAndKind(resource.APIVersion, resource.Kind)); v.unknown != nil || v.forbidden != "" {
			return v
		}
		warnings = slices.Concat(grantTemplateWarnings(c.new), w.Advice.Consumer(c.new.Spec.Target.ResourceGrantTemplate.Spec.ConsumerRef),
			w.Previewer.GrantPolicy(ctx, c.new))
	}
	warnings = append(warnings, grantPolicyWarnings(c.new)...)
	if c.new.IsEnabled() {
		if err := w.GrantPolicies.Check(ctx, c.new); err != nil {
			warnings = append(warnings, notReadyYet(err))
		}
	}
	return result{warnings: warnings}
}

// warnClaimsStay warns of the remaining claims of a deleted policy.
func (w *Webhooks) warnClaimsStay(policy *quotav1alpha1.ClaimCreationPolicy) []string {
	n := w.Claims.CountOf(claims.LabelValue(policy.Name))
	if policy.DeletionTimestamp != nil || n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s of this policy %s, and %s, until the objects or the claims are deleted; to delete the claims: "+
		"kubectl delete resourceclaims.quota.miloapis.com --all-namespaces -l %s=%s",
		counted(n, "claim"), either(n, "stays", "stay"), either(n, "keeps its quota", "keep their quota"),
		quotav1alpha1.LabelPolicy, claims.LabelValue(policy.Name))}
}

// warnGrantsDeleted warns of the deletion of a policy's grants with the policy.
func (w *Webhooks) warnGrantsDeleted(ctx context.Context, policy *quotav1alpha1.GrantCreationPolicy) []string {
	if policy.DeletionTimestamp != nil {
		return nil
	}
	n, err := w.GrantPolicies.GrantsOf(ctx, policy)
	what := counted(n, "grant")
	switch {
	case err != nil, n == 0 && policy.Spec.Target.ParentContext == nil:
		return nil
	case policy.Spec.Target.ParentContext != nil:
		what += " here, and those in other control planes,"
	}
	return []string{fmt.Sprintf("%s of this policy %s deleted with it, and their consumers lose the quota; to keep the grants, disable the policy by spec.enabled instead",
		what, either(n, "is", "are"))}
}

func counted(n int, what string) string { return fmt.Sprintf("%d %s", n, either(n, what, what+"s")) }

func either(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return several
}

// mayRead forbids a policy if its author may not read its trigger kind. Others can read the results of a policy, its
// author among them.
func (w *Webhooks) mayRead(ctx context.Context, user authenticationv1.UserInfo, kind schema.GroupVersionKind) result {
	may, err := w.Permissions.MayRead(ctx, user, kind)
	switch {
	case err != nil:
		return result{unknown: fmt.Errorf("find out whether user %q may get objects of kind %s: %w", user.Username, kind.GroupKind(), err)}
	case !may:
		return result{forbidden: fmt.Sprintf("user %q may not get objects of kind %s in all namespaces: a policy discloses the fields that it reads, "+
			"so ask an administrator for that permission, or to write the policy", user.Username, kind.GroupKind())}
	default:
		return result{}
	}
}

func notReadyYet(err error) string { return fmt.Sprintf("the policy is not ready yet: %v", err) }

// ledger admits only Bursar. Its writes are valid by construction.
func (w *Webhooks) ledger(_ context.Context, c change[quotav1alpha1.ConsumerLedger]) result {
	if !c.byBursar {
		return result{forbidden: ledgerIsBursars}
	}
	return result{}
}

// allocationLedger admits only Bursar, except for changes of metadata: the garbage collector removes the owner to
// orphan the ledger. It reviews no deletions, because the garbage collector makes them.
func (w *Webhooks) allocationLedger(_ context.Context, c change[quotav1alpha1.AllocationLedger]) result {
	isSame := c.old != nil && c.new != nil && equality.Semantic.DeepEqual(c.old.Spec, c.new.Spec)
	if !isSame && !c.byBursar {
		return result{forbidden: allocationLedgerIsBursars}
	}
	return result{}
}

func (w *Webhooks) allocation(ctx context.Context, c change[quotav1alpha1.ResourceQuotaAllocation]) result {
	if c.new == nil || c.old != nil && equality.Semantic.DeepEqual(c.old.Spec, c.new.Spec) {
		return result{}
	}
	errs := Allocation(c.old, c.new)
	if c.old == nil || !equality.Semantic.DeepEqual(c.old.Spec.Allocation, c.new.Spec.Allocation) {
		wrong, err := w.QuotaSpecs.Check(ctx, field.NewPath("spec", "allocation"), &corev1.ResourceQuota{Spec: c.new.Spec.Allocation})
		if err != nil {
			return result{unknown: err}
		}
		errs = append(errs, wrong...)
	}
	if len(errs) > 0 {
		return result{errs: errs}
	}
	return result{warnings: append(allocationWarnings(c.new, w.MemberNamespaces), w.Advice.QuotaNames(c.new.Spec.Allocation.Hard)...)}
}

func (w *Webhooks) localAllocation(_ context.Context, c change[quotav1alpha1.LocalResourceQuotaAllocation]) result {
	isBursars := c.new != nil && (c.old == nil ||
		!equality.Semantic.DeepEqual(c.old.Spec, c.new.Spec) || !equality.Semantic.DeepEqual(c.old.Status, c.new.Status))
	if isBursars && !c.byBursar {
		return result{forbidden: localIsBursars}
	}
	return result{} // Bursar makes it again while it is needed.
}
