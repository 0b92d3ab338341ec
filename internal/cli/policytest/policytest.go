// Package policytest computes the charges of policies for objects, both from files and without a server. It evaluates
// and decides as Bursar does for a QuotaReview. Only commands import it.
package policytest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/quotareview"
	"github.com/bursar/bursar/internal/admission/validate"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// systemNamespace is where claims for cluster-scoped objects would be.
const systemNamespace = "bursar-system"

// Options are the input of a test.
type Options struct {
	// Files have the policies and the objects. They may have registrations, grants and namespaces, too.
	Files resource.FilenameOptions
	// User creates the objects. Policies see its name, groups and extra values as user.
	User authenticationv1.UserInfo
}

// Result is the outcome of a test.
type Result struct {
	// Rejected are the objects of Bursar's group that the API server would reject, with the reason. The rest of the result
	// omits them.
	Rejected []Rejected `json:"rejected,omitempty"`
	// UnknownNamespaces are those of objects that a policy fails on, if the files lack them. Policies see only their names.
	UnknownNamespaces []string `json:"unknownNamespaces,omitempty"`
	// Status is the answer on the objects. Its quotas are those of consumers with grants in the files.
	Status *quotav1alpha1.QuotaReviewStatus `json:"status"`
}

// Rejected is an object that the API server would reject, such as a policy.
type Rejected struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Run tests policies. All objects are new, and there is no use before the first one. A consumer without grants in the
// files has enough of everything.
func Run(ctx context.Context, o Options) (*Result, error) {
	f, err := read(ctx, o.Files)
	if err != nil {
		return nil, err
	}
	f.completeRegistrations()
	known := f.catalog()
	for _, grant := range f.grants {
		if err := known.CheckGrant(&grant.Spec); err != nil {
			f.reject("ResourceGrant", grant.Name, fmt.Errorf("it would not count: %w", err))
		}
	}
	facts, err := f.facts()
	if err != nil {
		return nil, err
	}
	facts.types = known
	ready := make(chan struct{})
	close(ready)
	reviewer := quotareview.New(quotareview.Dependencies{
		Catalog: known, Evaluator: &evaluator.Evaluator{Catalog: known, Namespaces: f, SystemNamespace: systemNamespace},
		Facts: facts, Kinds: guessed{}, Ready: ready,
	})
	result := &Result{Rejected: f.rejected}
	spec := &quotav1alpha1.QuotaReviewSpec{}
	for _, object := range f.objects {
		content, err := json.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("encode %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		spec.Objects = append(spec.Objects, quotav1alpha1.ReviewedObject{Object: runtime.RawExtension{Raw: content}})
	}
	if result.Status, err = reviewer.Review(ctx, o.User, spec); err != nil {
		return nil, err
	}
	result.UnknownNamespaces = f.unknownNamespaces(result.Status)
	result.Status.Quotas = slices.DeleteFunc(result.Status.Quotas, func(q quotav1alpha1.ReviewedQuota) bool { return len(facts.grants[q.ConsumerRef]) == 0 })
	return result, nil
}

// catalog returns the registrations and the policies, apart from policies that the API server would reject.
func (f *files) catalog() *catalog.Catalog {
	known := catalog.New()
	for _, r := range f.registrations {
		known.SetRegistration(r)
	}
	for _, p := range f.policies {
		errs := validate.ClaimPolicy(nil, p)
		if len(errs) == 0 {
			errs = known.SetPolicy(p)
		}
		switch err := known.CheckPolicy(p); {
		case len(errs) > 0:
			f.reject("ClaimCreationPolicy", p.Name, errs.ToAggregate())
		case err != nil:
			f.reject("ClaimCreationPolicy", p.Name, err)
		}
	}
	return known
}

// unknownNamespaces returns the sorted namespaces of objects that a policy fails on, without those in the files.
func (f *files) unknownNamespaces(status *quotav1alpha1.QuotaReviewStatus) []string {
	var unknown []string
	for i := range status.Objects {
		o := &status.Objects[i]
		if o.Namespace != "" && f.namespaces[o.Namespace] == nil && isFailed(o) {
			unknown = append(unknown, o.Namespace)
		}
	}
	slices.Sort(unknown)
	return slices.Compact(unknown)
}

// isFailed reports whether a policy of any mode cannot be applied to an object.
func isFailed(o *quotav1alpha1.ReviewedObjectResult) bool {
	return slices.ContainsFunc(o.Causes, func(c quotav1alpha1.ReviewedCause) bool { return c.Type == quotav1alpha1.CausePolicyNotApplicable })
}

// Active implements [evaluator.Namespaces]: every namespace exists.
func (f *files) Active(context.Context, string) (bool, error) { return true, nil }

// Object implements [evaluator.Namespaces]. A namespace outside the files has nothing but its name.
func (f *files) Object(_ context.Context, name string) (map[string]any, error) {
	if namespace := f.namespaces[name]; namespace != nil {
		return namespace.Object, nil
	}
	return map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
		"name": name, "labels": map[string]any{"kubernetes.io/metadata.name": name},
	}}, nil
}

// guessed finds the resource of each kind by its name.
type guessed struct{}

// VersionedResourceFor implements [discoverycache.Resolver].
func (guessed) VersionedResourceFor(_ context.Context, kind schema.GroupVersionKind) (schema.GroupVersionResource, bool, error) {
	plural, _ := apimeta.UnsafeGuessKindToResource(kind)
	return plural, true, nil
}

// facts are the facts in files: grants, and no existing objects.
type facts struct {
	grants map[quotav1alpha1.ConsumerRef][]ledger.Grant
	// resourceTypes are all resource types in the requests of policies.
	resourceTypes []string
	types         ledger.Types
}

func (f *files) facts() (*facts, error) {
	all := &facts{grants: map[quotav1alpha1.ConsumerRef][]ledger.Grant{}}
	for i, grant := range f.grants {
		grant.Spec.Period = quotav1alpha1.Period{} // a test says the same on any day
		for j := range grant.Spec.Allowances {
			grant.Spec.Allowances[j].Period = quotav1alpha1.Period{}
		}
		entry, err := ledgerstore.GrantOf(grant, time.Now())
		if err != nil {
			return nil, fmt.Errorf("ResourceGrant %s: %w", grant.Name, err)
		}
		entry.UID = fmt.Sprint(i)
		all.grants[grant.Spec.ConsumerRef] = append(all.grants[grant.Spec.ConsumerRef], entry)
	}
	for _, r := range f.registrations {
		all.resourceTypes = append(all.resourceTypes, r.Spec.ResourceType)
	}
	return all, nil
}

// Ledger implements [quotareview.Facts].
func (f *facts) Ledger(_ context.Context, consumer quotav1alpha1.ConsumerRef) (*ledger.Ledger, error) {
	grants := f.grants[consumer]
	if len(grants) == 0 {
		enough := ledger.Grant{UID: "enough", Name: "enough"}
		for _, resourceType := range f.resourceTypes {
			enough.Allowances = append(enough.Allowances, ledger.Allowance{ResourceType: resourceType, Amount: ledger.AmountMax})
		}
		grants = []ledger.Grant{enough}
	}
	l := ledger.New()
	l.SetTypes(f.types)
	_, err := l.ReplaceGrants(grants)
	return l, err
}

// Find implements [quotareview.Facts].
func (*facts) Find(context.Context, schema.GroupVersionKind, types.NamespacedName) (types.UID, error) {
	return "", nil
}

// Held implements [quotareview.Facts].
func (*facts) Held(schema.GroupVersionKind, types.UID) map[string]quotareview.Held { return nil }
