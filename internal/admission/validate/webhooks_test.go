package validate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/validate"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/policy"
)

const (
	bursar          = "system:serviceaccount:bursar-system:bursar"
	systemNamespace = "bursar-system"
)

// fake is Bursar's webhooks, with their lookups.
type fake struct {
	registeredBy      func(ctx context.Context, resourceType string) (string, error)
	registrationInUse func(ctx context.Context, registration *quotav1alpha1.ResourceRegistration) (string, error)
	amounts           string
	registration      *catalog.Registration

	checkNew                                           func(resourceTypes ...string) error
	grantErr, claimErr, claimPolicyErr, grantPolicyErr error

	may             func(user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error)
	mayRead         func(user authenticationv1.UserInfo) (bool, error)
	objectExists    func() (bool, error)
	namespaceActive func(name string) (bool, error)
	checkQuotaSpec  func(path *field.Path) (field.ErrorList, error)
}

// quiet is Bursar's webhooks with good results of all lookups. Every object exists.
func quiet() *fake {
	return &fake{
		registeredBy:      func(context.Context, string) (string, error) { return "", nil },
		registrationInUse: func(context.Context, *quotav1alpha1.ResourceRegistration) (string, error) { return "", nil },
		checkNew:          func(...string) error { return nil },
		may:               func(authenticationv1.UserInfo, authorizationv1.ResourceAttributes) (bool, error) { return false, nil },
		mayRead:           func(authenticationv1.UserInfo) (bool, error) { return true, nil },
		objectExists:      func() (bool, error) { return true, nil },
		namespaceActive:   func(string) (bool, error) { return true, nil },
		checkQuotaSpec:    func(*field.Path) (field.ErrorList, error) { return nil, nil },
	}
}

func (f *fake) webhooks() *validate.Webhooks {
	return &validate.Webhooks{
		Username: bursar, SystemNamespace: systemNamespace,
		Registrations: registrations{f}, Catalog: declared{f}, Claims: nothing{}, Engine: objects{f}, Counted: nothing{}, GrantPolicies: grantPolicies{f},
		Previewer: nothing{}, Advice: silent{}, Permissions: permissions{f}, QuotaSpecs: quotaSpecs{f}, Namespaces: namespaces{f},
	}
}

func (f *fake) Validation() http.Handler { return f.webhooks().Validation() }
func (f *fake) Mutation() http.Handler   { return f.webhooks().Mutation() }

type registrations struct{ *fake }

func (r registrations) RegisteredBy(ctx context.Context, resourceType string) (string, error) {
	return r.registeredBy(ctx, resourceType)
}
func (r registrations) InUse(ctx context.Context, registration *quotav1alpha1.ResourceRegistration) (string, error) {
	return r.registrationInUse(ctx, registration)
}
func (r registrations) AmountsOf(context.Context, string) (string, error) { return r.amounts, nil }

type declared struct{ *fake }

func (d declared) Registration(resourceType string) *catalog.Registration {
	if d.registration == nil || d.registration.ResourceType != resourceType {
		return nil
	}
	return d.registration
}

func (d declared) CheckNew(resourceTypes ...string) error                 { return d.checkNew(resourceTypes...) }
func (d declared) CheckGrant(*quotav1alpha1.ResourceGrantSpec) error      { return d.grantErr }
func (d declared) CheckClaim(*quotav1alpha1.ResourceClaimSpec) error      { return d.claimErr }
func (d declared) CheckPolicy(*quotav1alpha1.ClaimCreationPolicy) error   { return d.claimPolicyErr }
func (d declared) ConsumerNamespace(quotav1alpha1.ConsumerRef) string     { return systemNamespace }
func (d declared) CheckClaiming(*quotav1alpha1.ClaimCreationPolicy) error { return nil }

type objects struct{ *fake }

func (o objects) InUse(context.Context, *claim) (bool, error) { return o.objectExists() }

type grantPolicies struct{ *fake }

func (g grantPolicies) Check(context.Context, *quotav1alpha1.GrantCreationPolicy) error {
	return g.grantPolicyErr
}
func (g grantPolicies) GrantsOf(context.Context, *quotav1alpha1.GrantCreationPolicy) (int, error) {
	return 0, nil
}

type permissions struct{ *fake }

func (p permissions) May(_ context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	return p.may(user, what)
}
func (p permissions) MayRead(_ context.Context, user authenticationv1.UserInfo, _ schema.GroupVersionKind) (bool, error) {
	return p.mayRead(user)
}

type quotaSpecs struct{ *fake }

func (q quotaSpecs) Check(_ context.Context, path *field.Path, _ *corev1.ResourceQuota) (field.ErrorList, error) {
	return q.checkQuotaSpec(path)
}

type namespaces struct{ *fake }

func (n namespaces) Active(_ context.Context, name string) (bool, error) {
	return n.namespaceActive(name)
}

// nothing has no results of policies, and no effects of them.
type nothing struct{}

func (nothing) CountOf(string) int                                                       { return 0 }
func (nothing) ClaimPolicy(context.Context, *quotav1alpha1.ClaimCreationPolicy) []string { return nil }
func (nothing) GrantPolicy(context.Context, *quotav1alpha1.GrantCreationPolicy) []string { return nil }
func (nothing) CountedBy(schema.GroupVersionKind, string) (objects, consumers int)       { return 0, 0 }

// silent warns of nothing.
type silent struct{}

func (silent) Grant(context.Context, authenticationv1.UserInfo, *quotav1alpha1.ResourceGrant, *quotav1alpha1.ResourceGrant) []string {
	return nil
}
func (silent) Claim(context.Context, *quotav1alpha1.ResourceClaim) []string { return nil }
func (silent) Consumer(quotav1alpha1.ConsumerRef) []string                  { return nil }
func (silent) QuotaNames(corev1.ResourceList) []string                      { return nil }
func (silent) SystemObjects(context.Context, *quotav1alpha1.ClaimCreationPolicy) []string {
	return nil
}
func (silent) Registration(_, _ *quotav1alpha1.ResourceRegistration) []string {
	return nil
}

// review is a request as the API server sends it.
func review(t testing.TB, operation admissionv1.Operation, kind, resource, user string, old, new any) []byte {
	t.Helper()
	raw := func(object any) runtime.RawExtension {
		if object == nil {
			return runtime.RawExtension{}
		}
		return runtime.RawExtension{Raw: encode(t, object)}
	}
	gvk := metav1.GroupVersionKind{Group: quotav1alpha1.GroupName, Version: "v1alpha1", Kind: kind}
	return encode(t, &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID:       "705ab4f5-6393-11e8-b7cc-42010a800002",
			Kind:      gvk,
			Resource:  metav1.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: resource},
			Name:      "p1",
			Namespace: "acme",
			Operation: operation,
			UserInfo:  authenticationv1.UserInfo{Username: user},
			Object:    raw(new),
			OldObject: raw(old),
		},
	})
}

func encode(t testing.TB, object any) []byte {
	t.Helper()
	encoded, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// send posts a body and returns the response to the review in it.
func send(t testing.TB, handler http.Handler, body []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	recorder := post(handler, body)
	answer := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(recorder.Body.Bytes(), answer); err != nil || recorder.Code != http.StatusOK {
		t.Fatalf("status %d, body %q: %v", recorder.Code, recorder.Body, err)
	}
	if answer.APIVersion != "admission.k8s.io/v1" || answer.Kind != "AdmissionReview" || answer.Response == nil {
		t.Fatalf("not an answered AdmissionReview: %s", recorder.Body)
	}
	if want := types.UID("705ab4f5-6393-11e8-b7cc-42010a800002"); answer.Response.UID != want {
		t.Errorf("uid = %q, want that of the request, %q", answer.Response.UID, want)
	}
	return answer.Response
}

func post(handler http.Handler, body []byte) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body)))
	return recorder
}

func TestInvalidLooksLikeTheAPIServersOwn(t *testing.T) {
	wrong := sampleClaim()
	wrong.Spec.ConsumerRef.Name = ""
	wrong.Spec.Requests[0].Amount = 0
	got := send(t, quiet().Validation(), review(t, admissionv1.Create, "ResourceClaim", "resourceclaims", "alice", nil, wrong))
	want := &metav1.Status{
		Status: metav1.StatusFailure,
		Code:   http.StatusUnprocessableEntity,
		Reason: metav1.StatusReasonInvalid,
		Message: `ResourceClaim.quota.miloapis.com "p1" is invalid: [spec.consumerRef.name: Required value: name the object, ` +
			`spec.requests[0].amount: Invalid value: 0: must be a positive integer]`,
		Details: &metav1.StatusDetails{
			Group: quotav1alpha1.GroupName, Kind: "ResourceClaim", Name: "p1",
			Causes: []metav1.StatusCause{
				{Type: metav1.CauseTypeFieldValueRequired, Message: "Required value: name the object", Field: "spec.consumerRef.name"},
				{Type: metav1.CauseTypeFieldValueInvalid, Message: "Invalid value: 0: must be a positive integer", Field: "spec.requests[0].amount"},
			},
		},
	}
	if diff := cmp.Diff(want, got.Result); diff != "" || got.Allowed {
		t.Errorf("kubectl shows the causes one a line (-want +got):\n%s", diff)
	}
}

func TestErrorsAreBounded(t *testing.T) {
	wrong := sampleGrant()
	wrong.Spec.Allowances[0].Buckets = make([]quotav1alpha1.Bucket, 10_000)
	for i := range wrong.Spec.Allowances[0].Buckets {
		wrong.Spec.Allowances[0].Buckets[i].Amount = -1
	}
	got := send(t, quiet().Validation(), review(t, admissionv1.Create, "ResourceGrant", "resourcegrants", "alice", nil, wrong))
	if got.Allowed || len(got.Result.Details.Causes) != 50 {
		t.Errorf("an answer names at most 50 errors, got %d", len(got.Result.Details.Causes))
	}
}

// TestHugeObjectIsRejectedByItsFields reviews an object of the largest possible size: 3 MiB of characters, each
// escaped by six. encode does so too.
func TestHugeObjectIsRejectedByItsFields(t *testing.T) {
	huge := sampleClaimPolicy()
	huge.Spec.Target.ResourceClaimTemplate.Metadata.Name = strings.Repeat("<", 3<<20)
	stored := sampleClaimPolicy()
	stored.Annotations = map[string]string{"note": strings.Repeat("<", 256<<10)}
	body := review(t, admissionv1.Update, "ClaimCreationPolicy", "claimcreationpolicies", "alice", stored, huge)
	if len(body) < 18<<20 {
		t.Fatalf("the review has %d bytes, want it to be escaped", len(body))
	}
	got := send(t, quiet().Validation(), body)
	if got.Allowed || got.Result.Code != http.StatusUnprocessableEntity || len(got.Result.Message) > 4<<10 ||
		!strings.Contains(got.Result.Message, "spec.target.resourceClaimTemplate.metadata.name") {
		t.Errorf("got %.500v, want the field named in a short message", got.Result)
	}
}

// payerWarnings are the warnings for a policy with a consumer from a field of the object, like the sample.
var payerWarnings = policy.PayerFromObject(sampleClaimPolicy())

func TestValidation(t *testing.T) {
	const create, update, remove = admissionv1.Create, admissionv1.Update, admissionv1.Delete
	later := metav1.NewTime(time.Unix(1700000000, 0))
	deleting := policyClaim()
	deleting.DeletionTimestamp = &later
	disabled := sampleClaimPolicy()
	disabled.Spec.Enabled = new(bool)
	unregistered := func(w *fake) {
		w.claimPolicyErr = errors.New("no registration")
	}
	outage := errors.New("connection refused")
	marked := sampleGrant()
	marked.Labels = map[string]string{quotav1alpha1.LabelAutoCreated: "true"}
	requesting := sampleGrantPolicy()
	requesting.Spec.Target.ResourceGrantTemplate.Metadata.Annotations = map[string]string{"by": "{{.user.name}}"}
	cases := map[string]struct {
		reason    string
		with      func(*fake)
		operation admissionv1.Operation
		kind      string
		resource  string
		user      string
		old, new  any

		code     int32 // 0: allowed
		message  string
		warnings []string
	}{
		"Registration": {reason: "a valid object is accepted", operation: create, kind: "ResourceRegistration", resource: "resourceregistrations", new: sampleRegistration()},
		"RegistrationTaken": {
			reason: "the lookup is asked",
			with: func(w *fake) {
				w.registeredBy = func(context.Context, string) (string, error) { return "older", nil }
			},
			operation: create, kind: "ResourceRegistration", resource: "resourceregistrations", new: sampleRegistration(),
			code:    422,
			message: `ResourceRegistration.quota.miloapis.com "p1" is invalid: spec.resourceType: Duplicate value: "example.com/projects": resource type "example.com/projects" is already registered by ResourceRegistration older`,
		},
		"RegistrationDelete": {reason: "one that nobody uses may be deleted", operation: remove, kind: "ResourceRegistration", resource: "resourceregistrations", old: activeRegistration()},
		"ClaimPolicy":        {reason: "a valid object is accepted", operation: create, kind: "ClaimCreationPolicy", resource: "claimcreationpolicies", new: sampleClaimPolicy(), warnings: payerWarnings},
		"GrantPolicy":        {reason: "a valid object is accepted", operation: create, kind: "GrantCreationPolicy", resource: "grantcreationpolicies", new: sampleGrantPolicy()},
		"ClaimPolicyWarning": {
			reason: "the registration may come later", with: unregistered,
			operation: create, kind: "ClaimCreationPolicy", resource: "claimcreationpolicies", new: sampleClaimPolicy(),
			warnings: append(slices.Clone(payerWarnings), "the policy is not ready yet: no registration"),
		},
		"ClaimPolicyDisabled": {
			reason: "a disabled policy is not meant to be enforced", with: unregistered,
			operation: create, kind: "ClaimCreationPolicy", resource: "claimcreationpolicies", new: disabled, warnings: payerWarnings,
		},
		"GrantPolicyWarnings": {
			reason: "kinds and registrations may come later, and a request never",
			with: func(w *fake) {
				w.grantPolicyErr = errors.New("no registration")
			},
			operation: create, kind: "GrantCreationPolicy", resource: "grantcreationpolicies", new: requesting,
			warnings: []string{
				"the template uses user or requestInfo, and all their fields are empty in a GrantCreationPolicy: it applies to objects, and no request is involved",
				"the policy is not ready yet: no registration",
			},
		},
		"GrantMarked": {
			reason:    "nobody makes a policy's grant by label",
			operation: create, kind: "ResourceGrant", resource: "resourcegrants", new: marked, code: 422,
		},
		"GrantMarkedByPermission": {
			reason: "but for the Bursar of another control plane",
			with: func(w *fake) {
				w.may = func(user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
					return user.Username == "child" && what == (authorizationv1.ResourceAttributes{Namespace: "acme", Verb: "mark", Group: quotav1alpha1.GroupName, Resource: "resourcegrants"}), nil
				}
			},
			operation: create, kind: "ResourceGrant", resource: "resourcegrants", user: "child", new: marked,
		},
		"ClaimPolicyOfWhoMayNotRead": {
			reason: "what the policy makes of the objects is read by its author",
			with: func(w *fake) {
				w.mayRead = func(user authenticationv1.UserInfo) (bool, error) {
					return user.Username != "alice", nil
				}
			},
			operation: create, kind: "ClaimCreationPolicy", resource: "claimcreationpolicies", new: sampleClaimPolicy(), code: 403,
		},
		"GrantPolicyOfWhoMayNotRead": {
			reason: "as for claims",
			with: func(w *fake) {
				w.mayRead = func(authenticationv1.UserInfo) (bool, error) {
					return false, nil
				}
			},
			operation: create, kind: "GrantCreationPolicy", resource: "grantcreationpolicies", new: sampleGrantPolicy(), code: 403,
		},
		"GrantPolicyUnknown": {
			reason: "an outage is no decision",
			with: func(w *fake) {
				w.mayRead = func(authenticationv1.UserInfo) (bool, error) {
					return false, outage
				}
			},
			operation: create, kind: "GrantCreationPolicy", resource: "grantcreationpolicies", new: sampleGrantPolicy(), code: 503,
		},
		"GrantMarkedUnknown": {
			reason: "an outage is no decision",
			with: func(w *fake) {
				w.may = func(authenticationv1.UserInfo, authorizationv1.ResourceAttributes) (bool, error) {
					return false, outage
				}
			},
			operation: create, kind: "ResourceGrant", resource: "resourcegrants", new: marked,
			code:    503,
			message: `resourcegrants.quota.miloapis.com "p1" could not be checked: find out whether user "alice" may mark grants as a policy's: connection refused; nothing was changed, try again`,
		},
		"GrantWarning": {
			reason: "the registration may come later",
			with: func(w *fake) {
				w.grantErr = errors.New("no registration")
			},
			operation: create, kind: "ResourceGrant", resource: "resourcegrants", new: sampleGrant(),
			warnings: []string{"the grant does not count yet: no registration"},
		},
		"ClaimWarning": {
			reason: "the registration may come later",
			with: func(w *fake) {
				w.claimErr = errors.New("no registration")
			},
			operation: create, kind: "ResourceClaim", resource: "resourceclaims", new: sampleClaim(),
			warnings: []string{"the claim cannot be granted yet: no registration"},
		},
		"ClaimMarked":         {reason: "nobody pays by label", operation: create, kind: "ResourceClaim", resource: "resourceclaims", new: policyClaim(), code: 422},
		"ClaimMarkedByBursar": {reason: "Bursar may", operation: create, kind: "ResourceClaim", resource: "resourceclaims", user: bursar, new: policyClaim()},
		"ClaimDelete":         {reason: "a claim that was created directly may go", operation: remove, kind: "ResourceClaim", resource: "resourceclaims", old: sampleClaim()},
		"ClaimDeleteInUse": {
			reason:    "the object would be used for free",
			operation: remove, kind: "ResourceClaim", resource: "resourceclaims", old: policyClaim(),
			code:    403,
			message: `resourceclaims.quota.miloapis.com "p1" is forbidden: claim p1 pays for Project p1, which still exists; delete the Project instead`,
		},
		"ClaimDeleteByBursar": {reason: "Bursar knows when", operation: remove, kind: "ResourceClaim", resource: "resourceclaims", user: bursar, old: policyClaim()},
		"ClaimDeleteAgain":    {reason: "it is on its way already", operation: remove, kind: "ResourceClaim", resource: "resourceclaims", old: deleting},
		"ClaimDeleteUnused": {
			reason: "without the object there is nothing to pay for",
			with: func(w *fake) {
				w.objectExists = func() (bool, error) { return false, nil }
			},
			operation: remove, kind: "ResourceClaim", resource: "resourceclaims", old: policyClaim(),
		},
		"ClaimDeleteWithNamespace": {
			reason: "a namespace can be deleted",
			with: func(w *fake) {
				w.namespaceActive = func(name string) (bool, error) { return name != "acme", nil }
			},
			operation: remove, kind: "ResourceClaim", resource: "resourceclaims", old: policyClaim(),
		},
		"ClaimDeleteObjectUnknown": {
			reason: "an outage is no decision",
			with: func(w *fake) {
				w.objectExists = func() (bool, error) { return false, outage }
			},
			operation: remove, kind: "ResourceClaim", resource: "resourceclaims", old: policyClaim(),
			code:    503,
			message: `resourceclaims.quota.miloapis.com "p1" could not be checked: find out whether Project p1 exists: connection refused; nothing was changed, try again`,
		},
		"ClaimDeleteNamespaceUnknown": {
			reason: "an outage is no decision",
			with: func(w *fake) {
				w.namespaceActive = func(string) (bool, error) { return false, outage }
			},
			operation: remove, kind: "ResourceClaim", resource: "resourceclaims", old: policyClaim(),
			code:    503,
			message: `resourceclaims.quota.miloapis.com "p1" could not be checked: find out whether namespace acme is being deleted: connection refused; nothing was changed, try again`,
		},
		"Bucket": {
			reason:    "a bucket of somebody else would show nothing",
			operation: create, kind: "AllowanceBucket", resource: "allowancebuckets", new: sampleBucket(),
			code:    403,
			message: `allowancebuckets.quota.miloapis.com "p1" is forbidden: buckets are made by Bursar, one for each consumer and resource type that a grant or a claim names`,
		},
		"BucketByBursar": {reason: "Bursar makes buckets", operation: create, kind: "AllowanceBucket", resource: "allowancebuckets", user: bursar, new: sampleBucket()},
		"BucketUpdate":   {reason: "a bucket may be labelled", operation: update, kind: "AllowanceBucket", resource: "allowancebuckets", old: sampleBucket(), new: sampleBucket()},
		"BucketDelete":   {reason: "it comes again", operation: remove, kind: "AllowanceBucket", resource: "allowancebuckets", old: sampleBucket()},
		"EffectiveGrant": {
			reason:    "a view of somebody else would show nothing",
			operation: create, kind: "EffectiveResourceGrant", resource: "effectiveresourcegrants", new: sampleEffectiveGrant(),
			code: 403,
			message: `effectiveresourcegrants.quota.miloapis.com "p1" is forbidden: effective grants are made by Bursar, one for each consumer and` +
				` resource type that a grant or a claim names; to change what a consumer may use, change its ResourceGrants`,
		},
		"EffectiveGrantByBursar": {reason: "Bursar makes them", operation: create, kind: "EffectiveResourceGrant", resource: "effectiveresourcegrants", user: bursar, new: sampleEffectiveGrant()},
		"EffectiveGrantUpdate":   {reason: "one may be labelled", operation: update, kind: "EffectiveResourceGrant", resource: "effectiveresourcegrants", old: sampleEffectiveGrant(), new: sampleEffectiveGrant()},
		"EffectiveGrantDelete":   {reason: "it comes again", operation: remove, kind: "EffectiveResourceGrant", resource: "effectiveresourcegrants", old: sampleEffectiveGrant()},
		"Ledger": {
			reason:    "ledgers are Bursar's",
			operation: update, kind: "ConsumerLedger", resource: "consumerledgers", old: &quotav1alpha1.ConsumerLedger{}, new: &quotav1alpha1.ConsumerLedger{},
			code:    403,
			message: `consumerledgers.quota.miloapis.com "p1" is forbidden: ledgers are written only by Bursar; to change what a consumer may use, change its ResourceGrants`,
		},
		"LedgerCreate":   {reason: "ledgers are Bursar's", operation: create, kind: "ConsumerLedger", resource: "consumerledgers", new: &quotav1alpha1.ConsumerLedger{}, code: 403},
		"LedgerDelete":   {reason: "ledgers are Bursar's", operation: remove, kind: "ConsumerLedger", resource: "consumerledgers", old: &quotav1alpha1.ConsumerLedger{}, code: 403},
		"LedgerByBursar": {reason: "Bursar writes them", operation: create, kind: "ConsumerLedger", resource: "consumerledgers", user: bursar, new: &quotav1alpha1.ConsumerLedger{}},
		"AllocationLedger": {
			reason:    "so are those of an allocation",
			operation: create, kind: "AllocationLedger", resource: "allocationledgers", new: &quotav1alpha1.AllocationLedger{},
			code:    403,
			message: `allocationledgers.quota.miloapis.com "p1" is forbidden: ledgers are written only by Bursar; to change what ResourceQuotas may give, change the ResourceQuotaAllocation`,
		},
		"AllocationLedgerUpdate": {
			reason:    "nobody else charges",
			operation: update, kind: "AllocationLedger", resource: "allocationledgers",
			old: &quotav1alpha1.AllocationLedger{}, new: &quotav1alpha1.AllocationLedger{Spec: quotav1alpha1.AllocationLedgerSpec{AllocationVersion: "7"}},
			code: 403,
		},
		"AllocationLedgerOrphan":   {reason: "the garbage collector takes its owner away", operation: update, kind: "AllocationLedger", resource: "allocationledgers", old: &quotav1alpha1.AllocationLedger{}, new: &quotav1alpha1.AllocationLedger{}},
		"AllocationLedgerByBursar": {reason: "Bursar writes them", operation: create, kind: "AllocationLedger", resource: "allocationledgers", user: bursar, new: &quotav1alpha1.AllocationLedger{}},
		"OtherKind": {
			reason:    "nothing is let through unseen",
			operation: create, kind: "Project", resource: "projects", new: sampleClaim(),
			code:    400,
			message: `this webhook does not know quota.miloapis.com/v1alpha1, Kind=Project; correct the webhook configuration`,
		},
		"WrongType": {
			reason:    "an object that cannot be read is the sender's fault",
			operation: create, kind: "ResourceClaim", resource: "resourceclaims", new: map[string]any{"spec": "none"},
			code:    400,
			message: `the object cannot be read: json: cannot unmarshal string into Go struct field ResourceClaim.spec of type v1alpha1.ResourceClaimSpec`,
		},
		"HugeAmount": {
			reason:    "an amount never wraps",
			operation: create, kind: "ResourceClaim", resource: "resourceclaims",
			new:  map[string]any{"spec": map[string]any{"requests": []any{map[string]any{"amount": json.Number("9223372036854775808")}}}},
			code: 400,
			message: `the object cannot be read: spec.requests.amount must be a whole number of base units, without a unit or quotes, ` +
				`and at most 9223372036854775807, but is a number 9223372036854775808`,
		},
		"AmountWithUnit": {
			reason:    "people write quantities",
			operation: create, kind: "ResourceGrant", resource: "resourcegrants",
			new:  map[string]any{"spec": map[string]any{"allowances": []any{map[string]any{"buckets": []any{map[string]any{"amount": "10Gi"}}}}}},
			code: 400,
			message: `the object cannot be read: spec.allowances.buckets.amount must be a whole number of base units, without a unit or quotes, ` +
				`and at most 9223372036854775807, but is a string`,
		},
		"NoObject":    {reason: "there is something to judge", operation: create, kind: "ResourceGrant", resource: "resourcegrants", code: 400, message: "the object is missing"},
		"NoOldObject": {reason: "a change has a before", operation: update, kind: "ResourceGrant", resource: "resourcegrants", new: sampleGrant(), code: 400, message: "the object is missing"},
		"Connect": {
			reason:    "nothing is let through unseen",
			operation: admissionv1.Connect, kind: "ResourceGrant", resource: "resourcegrants", new: sampleGrant(),
			code: 400, message: `there is no validation of objects for operation "CONNECT"`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			webhooks := quiet()
			if c.with != nil {
				c.with(webhooks)
			}
			if c.user == "" {
				c.user = "alice"
			}
			got := send(t, webhooks.Validation(), review(t, c.operation, c.kind, c.resource, c.user, c.old, c.new))
			if got.Allowed != (c.code == 0) {
				t.Fatalf("%s: allowed = %v, status %+v", c.reason, got.Allowed, got.Result)
			}
			if diff := cmp.Diff(c.warnings, got.Warnings); diff != "" {
				t.Errorf("%s\nwarnings (-want +got):\n%s", c.reason, diff)
			}
			if c.code == 0 {
				return
			}
			if got.Result.Code != c.code {
				t.Errorf("%s: code %d, want %d", c.reason, got.Result.Code, c.code)
			}
			if c.message != "" && got.Result.Message != c.message {
				t.Errorf("%s\nmessage %q\n   want %q", c.reason, got.Result.Message, c.message)
			}
		})
	}
}

// statusReview is a request on the status of an object.
func statusReview(t testing.TB, operation admissionv1.Operation, kind, resource, user string, object any) []byte {
	t.Helper()
	return onSubresource(review(t, operation, kind, resource, user, object, object), "status")
}

func onSubresource(body []byte, name string) []byte {
	return bytes.Replace(body, []byte(`"operation"`), []byte(`"subResource":"`+name+`","operation"`), 1)
}

func TestStatus(t *testing.T) {
	kinds := map[string]struct {
		resource string
		object   any
	}{
		"ResourceRegistration":   {"resourceregistrations", sampleRegistration()},
		"ResourceGrant":          {"resourcegrants", sampleGrant()},
		"ResourceClaim":          {"resourceclaims", sampleClaim()},
		"AllowanceBucket":        {"allowancebuckets", sampleBucket()},
		"EffectiveResourceGrant": {"effectiveresourcegrants", sampleEffectiveGrant()},
		"ClaimCreationPolicy":    {"claimcreationpolicies", sampleClaimPolicy()},
		"GrantCreationPolicy":    {"grantcreationpolicies", sampleGrantPolicy()},
		"ConsumerLedger":         {"consumerledgers", &quotav1alpha1.ConsumerLedger{}},
		"AllocationLedger":       {"allocationledgers", &quotav1alpha1.AllocationLedger{}},
	}
	for kind, c := range kinds {
		t.Run(kind, func(t *testing.T) {
			handler := quiet().Validation()
			got := send(t, handler, statusReview(t, admissionv1.Update, kind, c.resource, "alice", c.object))
			want := c.resource + `/status.quota.miloapis.com "p1" is forbidden: the status of ` + kind + ` p1 is written only by Bursar`
			if got.Allowed || got.Result.Code != http.StatusForbidden || got.Result.Message != want {
				t.Errorf("whoever writes a status writes the ledger\n got %+v\nwant %q", got.Result, want)
			}
			if got := send(t, handler, statusReview(t, admissionv1.Update, kind, c.resource, bursar, c.object)); !got.Allowed {
				t.Errorf("Bursar writes it; got %+v", got.Result)
			}
		})
	}
	got := send(t, quiet().Validation(), statusReview(t, admissionv1.Delete, "ResourceClaim", "resourceclaims", bursar, sampleClaim()))
	if want := `Bursar does not validate a status for operation "DELETE"`; got.Allowed || got.Result.Message != want {
		t.Errorf("nothing is let through unseen\n got %+v\nwant %q", got.Result, want)
	}
}

// TestStatusInAnUpdate checks that only the changes of an object decide on its update. Its status may be any, because
// the API server drops it.
func TestStatusInAnUpdate(t *testing.T) {
	carries := sampleClaim()
	carries.Status.Conditions = []metav1.Condition{{Type: quotav1alpha1.ConditionGranted, Status: metav1.ConditionTrue}}
	got := send(t, quiet().Validation(), review(t, admissionv1.Update, "ResourceClaim", "resourceclaims", "alice", sampleClaim(), carries))
	if !got.Allowed {
		t.Errorf("got %+v, want it allowed", got.Result)
	}
}

func TestNamespaceDeletion(t *testing.T) {
	named := func(name string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	deleting := named(systemNamespace)
	deleting.DeletionTimestamp = &metav1.Time{Time: time.Unix(1700000000, 0)}
	cases := map[string]struct {
		reason    string
		operation admissionv1.Operation
		user      string
		old, new  any
		message   string
	}{
		"System": {
			reason: "the ledger would go with it", operation: admissionv1.Delete, user: "alice", old: named(systemNamespace),
			message: `namespaces "bursar-system" is forbidden: namespace bursar-system holds Bursar's ledgers and may not be deleted`,
		},
		"Bursar":   {reason: "Bursar may do anything", operation: admissionv1.Delete, user: bursar, old: named(systemNamespace)},
		"Deleting": {reason: "it is on its way already", operation: admissionv1.Delete, user: "alice", old: deleting},
		"Other":    {reason: "other namespaces come and go", operation: admissionv1.Delete, user: "alice", old: named("acme")},
		"Update":   {reason: "it may be labelled", operation: admissionv1.Update, user: "alice", old: named(systemNamespace), new: named(systemNamespace)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := send(t, quiet().Validation(), namespaceReview(t, c.operation, c.user, c.old, c.new))
			if got.Allowed != (c.message == "") || !got.Allowed && (got.Result.Code != http.StatusForbidden || got.Result.Message != c.message) {
				t.Errorf("%s\n got %+v\nwant %q", c.reason, got, c.message)
			}
		})
	}
	body := onSubresource(namespaceReview(t, admissionv1.Update, bursar, named(systemNamespace), named(systemNamespace)), "status")
	if got := send(t, quiet().Validation(), body); got.Allowed || got.Result.Code != http.StatusBadRequest {
		t.Errorf("a status of others is none of Bursar's; got %+v", got)
	}
}

// namespaceReview is a request on the system namespace.
func namespaceReview(t testing.TB, operation admissionv1.Operation, user string, old, new any) []byte {
	t.Helper()
	body := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(review(t, operation, "Namespace", "namespaces", user, old, new), body); err != nil {
		t.Fatal(err)
	}
	body.Request.Kind = metav1.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	body.Request.Resource = metav1.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	body.Request.Name, body.Request.Namespace = systemNamespace, systemNamespace
	return encode(t, body)
}

func TestRegistrationDeletion(t *testing.T) {
	const (
		inUse  = "ResourceRegistration projects registers example.com/projects, which ClaimCreationPolicy p requests; delete or disable that policy first"
		denied = `resourceregistrations.quota.miloapis.com "p1" is forbidden: ` + inUse
	)
	held := activeRegistration()
	held.Finalizers = []string{"example.com/other", quotav1alpha1.FinalizerInUse}
	deleting := held.DeepCopy()
	deleting.DeletionTimestamp = &metav1.Time{Time: time.Unix(1700000000, 0)}
	released := deleting.DeepCopy()
	released.Finalizers = released.Finalizers[:1]
	cases := map[string]struct {
		reason   string
		isUnused bool
		err      error
		user     string
		old, new *quotav1alpha1.ResourceRegistration

		code    int32 // 0: allowed
		message string
		warning string
	}{
		"Held":            {reason: "its finalizer keeps it, and whoever waits for it learns why", warning: "it stays, and accepts nothing new, until nothing uses it: " + inUse},
		"HeldUnused":      {reason: "it goes", isUnused: true},
		"HeldUnknown":     {reason: "it does not go before that is known", err: errors.New("connection refused")},
		"NotHeld":         {reason: "it would not be enforced any more", old: activeRegistration(), code: 403, message: denied},
		"NotHeldUnused":   {reason: "it goes", old: activeRegistration(), isUnused: true},
		"NotHeldInactive": {reason: "a second one for the type holds up nothing", old: sampleRegistration()},
		"Unknown": {
			reason: "an outage is no decision", old: activeRegistration(), err: errors.New("connection refused"), code: 503,
			message: `resourceregistrations.quota.miloapis.com "p1" could not be checked: find the users of resource type "example.com/projects": ` +
				`connection refused; nothing was changed, try again`,
		},
		"Bursar":    {reason: "Bursar knows when", old: activeRegistration(), user: bursar},
		"Collector": {reason: "who deletes the owner has said so", old: activeRegistration(), user: "system:serviceaccount:kube-system:generic-garbage-collector"},
		"Again":     {reason: "it is on its way already", old: deleting},

		"Release":         {reason: "it would go while it is used", old: deleting, new: released, code: 403, message: denied},
		"ReleaseUnused":   {reason: "it goes", old: deleting, new: released, isUnused: true},
		"ReleaseByBursar": {reason: "Bursar knows when", old: deleting, new: released, user: bursar},
		"Replace":         {reason: "a manifest has no finalizer, and an active registration gets it again", old: held, new: activeRegistration()},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			webhooks := quiet()
			webhooks.registrationInUse = func(_ context.Context, registration *quotav1alpha1.ResourceRegistration) (string, error) {
				if registration.Spec.ResourceType != "example.com/projects" {
					t.Errorf("asked about %q", registration.Spec.ResourceType)
				}
				if c.isUnused || c.err != nil {
					return "", c.err
				}
				return inUse, nil
			}
			if c.user == "" {
				c.user = "alice"
			}
			if c.old == nil {
				c.old = held
			}
			operation, changed := admissionv1.Delete, any(nil)
			if c.new != nil {
				operation, changed = admissionv1.Update, c.new
			}
			got := send(t, webhooks.Validation(), review(t, operation, "ResourceRegistration", "resourceregistrations", c.user, c.old, changed))
			if got.Allowed != (c.code == 0) || !got.Allowed && (got.Result.Code != c.code || got.Result.Message != c.message) {
				t.Errorf("%s\n got %+v\nwant %d %q", c.reason, got, c.code, c.message)
			}
			if warning := strings.Join(got.Warnings, "\n"); warning != c.warning {
				t.Errorf("%s: got the warning\n%s\nwant\n%s", c.reason, warning, c.warning)
			}
		})
	}
}

// TestBaseUnit changes the unit of stored amounts.
func TestBaseUnit(t *testing.T) {
	cases := map[string]struct {
		reason, amounts string
		isAllowed       bool
	}{
		"Unused": {"there is nothing that would mean something else", "", true},
		"Stored": {"1024 bytes would be 1024 bits", "ResourceGrant acme/base gives it", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			webhooks := quiet()
			webhooks.amounts = c.amounts
			changed := activeRegistration()
			changed.Spec.BaseUnit = "other"
			got := send(t, webhooks.Validation(), review(t, admissionv1.Update, "ResourceRegistration", "resourceregistrations", "alice", activeRegistration(), changed))
			const want = `spec.baseUnit: Invalid value: "other": amounts are stored in the base unit "project": ResourceGrant acme/base gives it; ` +
				`correct displayUnit and unitConversionFactor instead, or delete that first`
			if got.Allowed != c.isAllowed || !got.Allowed && !strings.Contains(got.Result.Message, want) {
				t.Errorf("%s: got %+v", c.reason, got)
			}
		})
	}
}

// TestNothingNew writes new uses of a resource type while its registration is being deleted.
func TestNothingNew(t *testing.T) {
	const closing = `resource type "example.com/projects" accepts nothing new: ResourceRegistration projects is being deleted`
	disabled := sampleClaimPolicy()
	disabled.Spec.Enabled = new(bool)
	other := sampleGrant()
	other.Spec.Allowances[0].ResourceType = "example.com/others"
	cases := map[string]struct {
		reason         string
		kind, resource string
		old, new       any
		isAllowed      bool
	}{
		"NewGrant":         {"it would never count", "ResourceGrant", "resourcegrants", nil, sampleGrant(), false},
		"GrantMore":        {"what it gives already may change", "ResourceGrant", "resourcegrants", sampleGrant(), sampleGrant(), true},
		"GrantElse":        {"it would use the type from now on", "ResourceGrant", "resourcegrants", other, sampleGrant(), false},
		"NewClaim":         {"it would never be granted", "ResourceClaim", "resourceclaims", nil, sampleClaim(), false},
		"NewPolicy":        {"it would never be ready", "ClaimCreationPolicy", "claimcreationpolicies", nil, sampleClaimPolicy(), false},
		"DisabledPolicy":   {"it uses nothing", "ClaimCreationPolicy", "claimcreationpolicies", nil, disabled, true},
		"EnablePolicy":     {"it would never be ready", "ClaimCreationPolicy", "claimcreationpolicies", disabled, sampleClaimPolicy(), false},
		"DisablePolicy":    {"that is what the registration waits for", "ClaimCreationPolicy", "claimcreationpolicies", sampleClaimPolicy(), disabled, true},
		"NewGrantPolicy":   {"it would never be ready", "GrantCreationPolicy", "grantcreationpolicies", nil, sampleGrantPolicy(), false},
		"SameGrantPolicy":  {"it uses the type already", "GrantCreationPolicy", "grantcreationpolicies", sampleGrantPolicy(), sampleGrantPolicy(), true},
		"UnrelatedGrant":   {"other types are open", "ResourceGrant", "resourcegrants", nil, other, true},
		"LeaveGrantedType": {"that is what the registration waits for", "ResourceGrant", "resourcegrants", sampleGrant(), other, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			webhooks := quiet()
			webhooks.checkNew = func(resourceTypes ...string) error {
				if slices.Contains(resourceTypes, "example.com/projects") {
					return errors.New(closing)
				}
				return nil
			}
			operation := admissionv1.Create
			if c.old != nil {
				operation = admissionv1.Update
			}
			got := send(t, webhooks.Validation(), review(t, operation, c.kind, c.resource, "alice", c.old, c.new))
			if got.Allowed != c.isAllowed || !got.Allowed && !strings.Contains(got.Result.Message, closing+"; wait until it is gone") {
				t.Errorf("%s: got %+v", c.reason, got)
			}
		})
	}
}

func TestOtherSubresources(t *testing.T) {
	const message = "this webhook does not know quota.miloapis.com/v1alpha1, Kind=ResourceClaim, subresource %s; correct the webhook configuration"
	cases := map[string]struct {
		handler     http.Handler
		subresource string
	}{
		"Validation": {quiet().Validation(), "scale"},
		"Mutation":   {quiet().Mutation(), "status"},
	}
	for name, c := range cases {
		body := review(t, admissionv1.Update, "ResourceClaim", "resourceclaims", bursar, sampleClaim(), sampleClaim())
		got := send(t, c.handler, onSubresource(body, c.subresource))
		if want := fmt.Sprintf(message, c.subresource); got.Allowed || got.Result.Message != want {
			t.Errorf("%s: a webhook that is asked by mistake says so; got %+v", name, got.Result)
		}
	}
}

func TestBadBodies(t *testing.T) {
	good := string(review(t, admissionv1.Create, "ResourceClaim", "resourceclaims", "alice", nil, sampleClaim()))
	cases := map[string]struct {
		reason, body string
		code         int
		message      string
	}{
		"Empty":     {reason: "nothing is no review", body: "", code: 400, message: "decode the AdmissionReview: unexpected end of JSON input\n"},
		"Garbage":   {reason: "neither is garbage", body: "\x00\xff{", code: 400},
		"Truncated": {reason: "neither is a part", body: good[:len(good)/2], code: 400},
		"Deep":      {reason: "nesting is bounded", body: strings.Repeat(`{"a":`, 100_000), code: 400},
		"NoRequest": {reason: "there has to be a question", body: `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, code: 400, message: "the AdmissionReview has no request\n"},
		"Beta": {
			reason: "other versions mean other things",
			body:   strings.Replace(good, "admission.k8s.io/v1", "admission.k8s.io/v1beta1", 1), code: 400,
			message: "the body is a admission.k8s.io/v1beta1, Kind=AdmissionReview, not an AdmissionReview of admission.k8s.io/v1\n",
		},
		"Huge": {
			reason: "memory is bounded", body: strings.Repeat(" ", 24<<20) + good, code: 413,
			message: "read the AdmissionReview: http: request body too large\n",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, handler := range []http.Handler{quiet().Validation(), quiet().Mutation()} {
				got := post(handler, []byte(c.body))
				if got.Code != c.code || c.message != "" && got.Body.String() != c.message {
					t.Errorf("%s: status %d, want %d; body %q", c.reason, got.Code, c.code, got.Body)
				}
			}
		})
	}
}
