// Package why explains how quota applies to an object: the matching policies, the payer and the amounts, the grants
// behind the limit, the holders, and the next step. It reads with the permissions of its user, and leaves out
// everything else. Only commands import it.
package why

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/cli/request"
	"github.com/bursar/bursar/internal/policy"
	"github.com/bursar/bursar/internal/usage"
	"github.com/bursar/bursar/internal/usage/holders"
)

// Reader reads the data of an explanation.
type Reader struct {
	API client.Client
	// Namespace is the namespace for users without the right to read all.
	Namespace string

	registrations *catalog.Catalog
}

// Explanation is how quota applies to an object.
type Explanation struct {
	// Object names the explained object, and Answer is the API server's answer to its creation, or empty.
	Object string `json:"object"`
	Answer string `json:"answer,omitempty"`
	// Policies are those for the kind of the object. MayNotReadPolicies means that the user may not read them.
	Policies           []Policy  `json:"policies,omitempty"`
	MayNotReadPolicies bool      `json:"mayNotReadPolicies,omitempty"`
	Payments           []Payment `json:"payments,omitempty"`
	// Notes are sentences about what is missing in the explanation.
	Notes []string `json:"notes,omitempty"`

	isDenied bool
	// isUnreached means that the API server did not reach Bursar, so that nobody has decided about the object.
	isUnreached bool
}

// Policy is a policy for the kind of an object.
type Policy struct {
	Name string `json:"name"`
	Mode string `json:"mode"`
	// State is Ready, or the reason why not. Matches is whether the policy matches the object, or the reason why not.
	State   string `json:"state"`
	Matches string `json:"matches"`
	// payment is its demand, or nil. isFailed means that the demand is unknown.
	payment  *Payment
	isFailed bool
}

// Payment is the charge of a consumer, actual or possible.
type Payment struct {
	Consumer quotav1alpha1.ConsumerRef       `json:"consumerRef"`
	Requests []quotav1alpha1.ResourceRequest `json:"requests,omitempty"`
	// By is a policy or a claim, and Claim is the state of the claim, or empty without a claim. An object that counts has
	// that of a granted claim.
	By    string `json:"by,omitempty"`
	Claim string `json:"claim,omitempty"`
	// Mode is the mode of a policy that does not enforce, or empty.
	Mode string `json:"mode,omitempty"`
	// IsVague means that an error names no resource type. Types are then all of the consumer's.
	IsVague bool `json:"isVague,omitempty"`
	// IsHidden means that the user may not read every possible namespace of the consumer's quota.
	IsHidden bool   `json:"isHidden,omitempty"`
	Types    []Type `json:"resourceTypes,omitempty"`
	// Ask is the command to ask for the missing amounts, or empty.
	Ask string `json:"ask,omitempty"`
}

// Type is a consumer's quota of a resource type.
type Type struct {
	ResourceType string `json:"resourceType"`
	// Name, Description and Owner are those of the registration, for people. Each may be empty.
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
	Owner       string `json:"owner,omitempty"`
	// Requested is the object's demand, and the others are the consumer's quota; all are texts with units, or "-".
	Requested string   `json:"requested"`
	Used      string   `json:"used"`
	Limit     string   `json:"limit"`
	Available string   `json:"available"`
	Fits      string   `json:"fits"`
	Grants    []string `json:"grants,omitempty"`
	Holders   []string `json:"holders,omitempty"`
	Advice    string   `json:"advice,omitempty"`
}

// Object explains an object from a file, or an existing one.
func (r *Reader) Object(ctx context.Context, object *unstructured.Unstructured, exists bool) (*Explanation, error) {
	e := &Explanation{Object: nameOf(object)}
	var err error
	if r.registrations, err = r.readRegistrations(ctx); err != nil {
		return nil, err
	}
	if e.Policies, err = r.policies(ctx, object); usage.IsOutOfReach(err) {
		e.MayNotReadPolicies = true
	} else if err != nil {
		return nil, err
	}

	// Holders show what is paid already. Policies add what would be paid.
	held, err := r.heldFor(ctx, e, object)
	if err != nil {
		return nil, err
	}
	if claim := claimOf(object); claim != nil {
		asked := holders.OfClaim(claim)
		held = append(held, paymentOf(&asked))
	}
	for _, p := range e.Policies {
		if p.payment != nil && !slices.ContainsFunc(held, func(h Payment) bool { return h.Consumer == p.payment.Consumer }) {
			e.Payments = append(e.Payments, *p.payment)
		}
	}
	e.Payments = append(e.Payments, held...)

	if !exists {
		denied := r.try(ctx, object, e)
		if len(e.Payments) == 0 && e.MayNotReadPolicies {
			e.Payments = paymentsOf(denied)
		}
	}
	err = r.advised(e.Answer).complete(ctx, e)
	e.addMode()
	return e, err
}

// addMode adds to the answer that only the mode of a policy lets the object pass.
func (e *Explanation) addMode() {
	i := slices.IndexFunc(e.Payments, (Payment).isUnenforced)
	if i >= 0 && e.Answer != "" && !e.isDenied {
		e.Answer += fmt.Sprintf(" It passes only because of the mode %s: Enforce would deny it.", e.Payments[i].Mode)
	}
}

// isUnenforced reports whether something does not fit, and the policy does not enforce.
func (p Payment) isUnenforced() bool {
	return p.Mode != "" && slices.ContainsFunc(p.Types, func(t Type) bool { return t.Advice != "" })
}

// advised returns a reader for the namespace of the quota in the advice of a denial, or r without such an advice.
func (r *Reader) advised(denial string) *Reader {
	advice, err := request.ParseDenial(denial)
	if err != nil || advice.Namespace == "" {
		return r
	}
	return &Reader{API: r.API, Namespace: advice.Namespace, registrations: r.registrations}
}

// Denial explains the text of an error.
func (r *Reader) Denial(ctx context.Context, text string) (*Explanation, error) {
	found, ok := parse(text)
	if !ok {
		return nil, adviceOn(text)
	}
	var err error
	if r.registrations, err = r.readRegistrations(ctx); err != nil {
		return nil, err
	}
	e := &Explanation{Object: "the error", Payments: []Payment{found}}
	return e, r.advised(text).complete(ctx, e)
}

func nameOf(object *unstructured.Unstructured) string {
	name := object.GetKind() + " " + cmp.Or(object.GetName(), object.GetGenerateName()+"...")
	if namespace := object.GetNamespace(); namespace != "" {
		name += " in namespace " + namespace
	}
	return name
}

// list lists objects in all namespaces. For users without the right to do so, it lists those in Namespace. It reports
// whether the list is complete. Without either right, the list is empty.
func (r *Reader) list(ctx context.Context, list client.ObjectList, options ...client.ListOption) (isWhole bool, err error) {
	err = r.API.List(ctx, list, options...)
	isWhole = err == nil
	if apierrors.IsForbidden(err) && r.Namespace != "" {
		err = r.API.List(ctx, list, append(options, client.InNamespace(r.Namespace))...)
	}
	if usage.IsOutOfReach(err) {
		return false, nil
	}
	return isWhole, err
}

func (r *Reader) readRegistrations(ctx context.Context) (*catalog.Catalog, error) {
	var list quotav1alpha1.ResourceRegistrationList
	if _, err := r.list(ctx, &list); err != nil {
		return nil, fmt.Errorf("list the registrations: %w", err)
	}
	registrations := catalog.New()
	for i := range list.Items {
		registrations.SetRegistration(&list.Items[i])
	}
	return registrations, nil
}

// policies evaluates the policies for the kind of an object.
func (r *Reader) policies(ctx context.Context, object *unstructured.Unstructured) ([]Policy, error) {
	var list quotav1alpha1.ClaimCreationPolicyList
	if err := r.API.List(ctx, &list); err != nil {
		return nil, err
	}

	in := policy.Input{Object: object.Object, WithoutRequest: true, Units: r.registrations}
	mayNotReadNamespace := false
	if object.GetNamespace() != "" {
		namespace := &unstructured.Unstructured{}
		namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		err := r.API.Get(ctx, client.ObjectKey{Name: object.GetNamespace()}, namespace)
		if err == nil {
			in.NamespaceObject = namespace.Object
		}
		mayNotReadNamespace = apierrors.IsForbidden(err)
	}

	var found []Policy
	for i := range list.Items {
		each := cmp.Or(list.Items[i].Former(), &list.Items[i])
		if catalog.TriggerOf(each).GroupKind() == object.GroupVersionKind().GroupKind() {
			p := r.evaluate(ctx, each, in)
			if p.isFailed && mayNotReadNamespace {
				p.Matches += " (you may not read namespace " + object.GetNamespace() + ", but Bursar does)"
			}
			found = append(found, p)
		}
	}
	return found, nil
}

// evaluate evaluates the demand of one policy for an object.
func (r *Reader) evaluate(ctx context.Context, object *quotav1alpha1.ClaimCreationPolicy, in policy.Input) Policy {
	p := Policy{Name: object.Name, Mode: string(cmp.Or(object.Spec.EnforcementMode, quotav1alpha1.EnforcementModeEnforce)), State: "Ready"}
	if ready := apimeta.FindStatusCondition(object.Status.Conditions, quotav1alpha1.ConditionReady); ready == nil || ready.Status != metav1.ConditionTrue {
		p.State = "not ready"
		if ready != nil {
			p.State += ": " + ready.Message
		}
	}
	if !object.IsEnabled() {
		p.State = "disabled"
	}

	compiled, errs := policy.Compile(object)
	if len(errs) > 0 {
		p.Matches = "cannot be evaluated: " + errs.ToAggregate().Error()
		return p
	}
	matches, err := compiled.Matches(ctx, in)
	switch {
	case err != nil:
		p.Matches, p.isFailed = "fails: "+err.Error(), true
		return p
	case !matches:
		p.Matches = "no, its conditions leave the object out"
		return p
	}

	claim, err := compiled.Render(ctx, in)
	switch {
	case err != nil:
		p.Matches, p.isFailed = "fails: "+err.Error(), true
	case claim == nil:
		p.Matches = "yes, and asks for nothing"
	default:
		p.Matches = "yes"
		if object.IsEnabled() {
			p.payment = &Payment{Consumer: claim.Spec.ConsumerRef, Requests: claim.Spec.Requests, By: "ClaimCreationPolicy " + object.Name}
			if p.Mode != string(quotav1alpha1.EnforcementModeEnforce) {
				p.payment.Mode = p.Mode
			}
		}
	}
	return p
}

// claimOf returns the object as a claim, or nil if it is of another kind.
func claimOf(object *unstructured.Unstructured) *quotav1alpha1.ResourceClaim {
	claim := &quotav1alpha1.ResourceClaim{}
	if object.GroupVersionKind().GroupKind() != quotav1alpha1.GroupVersion.WithKind("ResourceClaim").GroupKind() ||
		runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, claim) != nil {
		return nil
	}
	return claim
}

// paymentsOf returns the payers and amounts in a denial: one payment for each consumer.
func paymentsOf(denied error) []Payment {
	var payments []Payment
	for _, denial := range quotav1alpha1.DenialsOf(denied) {
		if denial.Consumer == nil || denial.ResourceType == "" {
			continue
		}
		requested := quotav1alpha1.ResourceRequest{ResourceType: denial.ResourceType, Dimensions: denial.Dimensions}
		if denial.Figures != nil {
			requested.Amount = denial.Figures.Requested
		}
		i := slices.IndexFunc(payments, func(p Payment) bool { return p.Consumer == *denial.Consumer })
		if i < 0 {
			i = len(payments)
			payments = append(payments, Payment{Consumer: *denial.Consumer})
		}
		payments[i].Requests = append(payments[i].Requests, requested)
	}
	return payments
}

// try asks the API server by a dry run whether it would create an object now or update the existing one. It returns the
// reason why not.
func (r *Reader) try(ctx context.Context, object *unstructured.Unstructured, e *Explanation) error {
	verb := "create"
	err := r.API.Create(ctx, object.DeepCopy(), client.DryRunAll)
	if apierrors.IsAlreadyExists(err) {
		verb = "change"
		var patch []byte
		if patch, err = object.MarshalJSON(); err == nil {
			err = r.API.Patch(ctx, object.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.DryRunAll)
		}
	}
	if e.Answer = fmt.Sprintf("The API server would %s it now.", verb); err == nil {
		return nil
	}
	text := strings.TrimSpace(message.WithoutURLs(err.Error()))
	e.isDenied, e.isUnreached = true, message.IsUnreached(text)
	e.Answer = fmt.Sprintf("The API server would not %s it: %s", verb, text)
	if e.isUnreached {
		e.Answer = fmt.Sprintf("The API server would not %s it, because %s (%s)", verb, unreached, text)
	}
	return err
}
