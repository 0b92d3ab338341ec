package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	fits       = quotav1alpha1.ReviewResultFits
	doesNotFit = quotav1alpha1.ReviewResultDoesNotFit
	untold     = quotav1alpha1.ReviewResultUnknown
)

// reviewed is an object of a QuotaReview.
func reviewed(object *unstructured.Unstructured, operation quotav1alpha1.ReviewedOperation) quotav1alpha1.ReviewedObject {
	content, err := json.Marshal(object)
	if err != nil {
		panic(err) // it is made from maps
	}
	return quotav1alpha1.ReviewedObject{Operation: operation, Object: runtime.RawExtension{Raw: content}}
}

func applied(object *unstructured.Unstructured) quotav1alpha1.ReviewedObject {
	return reviewed(object, quotav1alpha1.ReviewedOperationApply)
}

func deleted(object *unstructured.Unstructured) quotav1alpha1.ReviewedObject {
	return reviewed(object, quotav1alpha1.ReviewedOperationDelete)
}

// review asks as the user of a client.
func (w *world) review(as client.Client, surge bool, objects ...quotav1alpha1.ReviewedObject) *quotav1alpha1.QuotaReviewStatus {
	w.Helper()
	review := &quotav1alpha1.QuotaReview{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "r-", Namespace: w.name}, Spec: quotav1alpha1.QuotaReviewSpec{Objects: objects, Surge: surge},
	}
	if err := as.Create(w.ctx, review, client.DryRunAll); err != nil {
		w.Fatal(err)
	}
	if review.Status == nil {
		w.Fatal("the review has no answer")
	}
	return review.Status
}

func (w *world) wantResults(status *quotav1alpha1.QuotaReviewStatus, want ...quotav1alpha1.ReviewResult) {
	w.Helper()
	for i, result := range want {
		if got := status.Objects[i]; got.Result != result {
			w.Errorf("%s %s: got %s (%s), want %s", got.Kind, got.Name, got.Result, got.Message, result)
		}
	}
}

func TestQuotaReview(t *testing.T) {
	t.Parallel()
	f := newFollowedWorld(t, 5, nil)
	present := f.fleet("a", 2)
	f.mustCreate(present)
	f.wantBucket(5, 2, 3, 1)
	f.waitClaims(present.GetUID()) // the bucket may show the charge before the review knows the object

	status := f.review(admin, false, applied(f.fleet("b", 2)), applied(f.fleet("c", 2)), applied(f.fleet("d", 1)))
	f.wantResults(status, fits, doesNotFit, fits)
	if o := status.Objects[1]; !strings.Contains(o.Message, "requested: 2 maps, used: 4, limited: 5") || len(o.Causes) != 1 || o.Causes[0].Type != quotav1alpha1.CauseQuotaExceeded {
		t.Errorf("the second object has the message %q and the causes %v, want those of a denial", o.Message, o.Causes)
	}
	if status.Result != doesNotFit || status.Message != "1 of 3 would be denied." {
		t.Errorf("the whole is %s: %s", status.Result, status.Message)
	}
	want := quotav1alpha1.ReviewedQuota{
		ReviewedCharge: quotav1alpha1.ReviewedCharge{ConsumerRef: f.consumer(), ResourceType: f.resourceType(), Amount: 5},
		Limit:          5, Used: 2, Available: 3, AvailableAfter: 0,
		Display: quotav1alpha1.DisplayedReview{Amount: "+5 maps", Limit: "5 maps", Used: "2 maps", Available: "3 maps", AvailableAfter: "0 maps"},
	}
	if len(status.Quotas) != 1 || fmt.Sprint(status.Quotas[0]) != fmt.Sprint(want) {
		t.Errorf("got the quotas %+v, want %+v", status.Quotas, want)
	}

	f.wantResults(f.review(admin, false, applied(f.fleet("a", 5))), fits)
	f.wantResults(f.review(admin, false, applied(f.fleet("a", 6))), doesNotFit)
	f.wantResults(f.review(admin, false, applied(f.fleet("b", 5)), deleted(f.fleet("a", 0))), fits, fits)
	f.wantResults(f.review(admin, true, applied(f.fleet("b", 5)), deleted(f.fleet("a", 0))), doesNotFit, fits)
	f.wantResults(f.review(admin, false, deleted(f.fleet("none", 0))), fits)
	if o := f.review(admin, false, applied(f.fleet("b", -1))).Objects[0]; o.Result != doesNotFit || !strings.Contains(o.Message, "cannot be applied") {
		t.Errorf("a policy that cannot be applied: got %s (%s)", o.Result, o.Message)
	}
	f.wantBucket(5, 2, 3, 1)
	if fleets := f.fleets(); len(fleets) != 1 {
		t.Errorf("after reviews there are %d fleets, want 1", len(fleets))
	}
}

// A policy in warning mode takes nothing from an enforcing one, as in a create. A review denies nothing to a member of
// the break-glass group.
func TestQuotaReviewOfTwoPolicies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 1)
	for name, mode := range map[string]quotav1alpha1.EnforcementMode{"-a": quotav1alpha1.EnforcementModeWarn, "-b": quotav1alpha1.EnforcementModeEnforce} {
		w.policy(w.name+name, func(p *quotav1alpha1.ClaimCreationPolicy) { p.Spec.EnforcementMode = mode })
	}
	status := w.review(admin, false, w.appliedMap("one"), w.appliedMap("two"))
	w.wantResults(status, fits, doesNotFit)
	if o := status.Objects[0]; len(o.Policies) != 2 || !strings.Contains(o.Message, "This is not enforced yet") {
		t.Errorf("got %+v, want two policies and a warning", o)
	}
	w.wantResults(w.review(breakingGlass(t), false, w.appliedMap("one"), w.appliedMap("two")), fits, fits)
	must(t, admin.Create(w.ctx, w.configMap("one"), client.DryRunAll))
}

func TestQuotaReviewIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	review := &quotav1alpha1.QuotaReview{ObjectMeta: metav1.ObjectMeta{GenerateName: "r-", Namespace: w.name}}
	for range quotav1alpha1.ReviewMax + 1 {
		review.Spec.Objects = append(review.Spec.Objects, w.appliedMap("one"))
	}
	if err := admin.Create(w.ctx, review, client.DryRunAll); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "split it") {
		t.Errorf("got %v for too many objects", err)
	}
}

// breakingGlass is the client of an administrator outside enforcement.
func breakingGlass(t *testing.T) client.Client {
	t.Helper()
	config := rest.CopyConfig(started.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "fire-fighter", Groups: []string{user.SystemPrivilegedGroup, quotav1alpha1.BreakGlassGroup}}
	api, err := client.New(config, client.Options{Scheme: admin.Scheme()})
	must(t, err)
	return api
}

// appliedMap is a ConfigMap of a QuotaReview.
func (w *world) appliedMap(name string) quotav1alpha1.ReviewedObject {
	w.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(w.configMap(name))
	must(w, err)
	object := &unstructured.Unstructured{Object: content}
	object.SetAPIVersion("v1")
	object.SetKind("ConfigMap")
	return applied(object)
}

// fleets are the stored fleets.
func (f *followed) fleets() []unstructured.Unstructured {
	f.Helper()
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(fleet.GroupVersion().WithKind("FleetList"))
	must(f, admin.List(f.ctx, &list, client.InNamespace(f.name)))
	return list.Items
}

func TestQuotaReviewIsNotStored(t *testing.T) {
	t.Parallel()
	f := newFollowedWorld(t, 5, nil)
	review := &quotav1alpha1.QuotaReview{
		ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: f.name}, Spec: quotav1alpha1.QuotaReviewSpec{Objects: []quotav1alpha1.ReviewedObject{applied(f.fleet("a", 1))}},
	}
	if err := admin.Create(f.ctx, review); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "--dry-run=server") {
		t.Errorf("got %v, want a create without dry run to be rejected", err)
	}
	var list quotav1alpha1.QuotaReviewList
	if must(t, admin.List(f.ctx, &list, client.InNamespace(f.name))); len(list.Items) > 0 {
		t.Errorf("%d reviews are stored", len(list.Items))
	}
}

// Users learn nothing of a quota outside their permissions, nor of objects they may not read.
func TestQuotaReviewTellsOnlyWhatTheUserMaySee(t *testing.T) {
	t.Parallel()
	f := newFollowedWorld(t, 5, nil)
	f.mustCreate(f.fleet("a", 2))
	user := f.userWith(ruleFor(quotav1alpha1.GroupName, "quotareviews", "create"))
	status := f.review(user, false, applied(f.fleet("a", 9)))
	f.wantResults(status, untold)
	if o := status.Objects[0]; o.Operation != "" || len(o.Charges) > 0 || len(status.Quotas) > 0 {
		t.Errorf("a user who may read nothing learns of %+v and %+v", o, status.Quotas)
	}
	reader := f.userWith(ruleFor(quotav1alpha1.GroupName, "quotareviews", "create"), ruleFor(fleet.Group, "fleets", "get"))
	status = f.review(reader, false, applied(f.fleet("b", 9)))
	f.wantResults(status, untold)
	if o := status.Objects[0]; len(o.Charges) > 0 || len(status.Quotas) > 0 || strings.Contains(o.Message, "5") {
		t.Errorf("a user who may not see the quota learns of %+v and %+v", o, status.Quotas)
	}
}

// A review foretells the result: decreases and deletions first, then the rest in its order.
func TestQuotaReviewForetells(t *testing.T) {
	t.Parallel()
	f := newFollowedWorld(t, foretoldLimit, nil)
	f.wantSetsForetold(f.waitSettled)
}

// A review foretells the result also for objects that count without claims.
func TestQuotaReviewForetellsOfCountedObjects(t *testing.T) {
	t.Parallel()
	f := newFollowedWorld(t, foretoldLimit, withoutClaims)
	f.wantSetsForetold(f.waitCounted)
}

func withoutClaims(p *quotav1alpha1.ClaimCreationPolicy) {
	p.Spec.Claims = quotav1alpha1.ClaimsModeNone
}

// A review knows what objects hold without claims: an update or a deletion gives that back.
func TestQuotaReviewOfCountedObjects(t *testing.T) {
	t.Parallel()
	f := newFollowedWorld(t, 5, withoutClaims)
	f.mustCreate(f.fleet("a", 2))
	f.wantBucket(5, 2, 3, 1)

	f.wantResults(f.review(admin, false, applied(f.fleet("a", 5))), fits)
	f.wantResults(f.review(admin, false, applied(f.fleet("b", 5)), deleted(f.fleet("a", 0))), fits, fits)
	f.wantResults(f.review(admin, true, applied(f.fleet("b", 5)), deleted(f.fleet("a", 0))), doesNotFit, fits)

	status := f.review(admin, false, applied(f.fleet("a", 6)))
	f.wantResults(status, doesNotFit)
	if o := status.Objects[0]; !strings.Contains(o.Message, "requested: 4 maps, used: 2, limited: 5") {
		t.Errorf("got the message %q, want that of a denial", o.Message)
	}
	if len(status.Quotas) != 1 || status.Quotas[0].Amount != 4 || status.Quotas[0].Used != 2 {
		t.Errorf("got the quotas %+v, want 4 more than the 2 in use", status.Quotas)
	}
}

// What a policy does not review passes and counts, and a review says so.
func TestQuotaReviewOfCountedGrowthWithoutReview(t *testing.T) {
	t.Parallel()
	f := newFollowedWorld(t, 5, func(p *quotav1alpha1.ClaimCreationPolicy) {
		withoutClaims(p)
		p.Spec.Trigger.Operations = []quotav1alpha1.TriggerOperation{quotav1alpha1.TriggerOperationCreate}
	})
	f.mustCreate(f.fleet("a", 2))
	f.wantBucket(5, 2, 3, 1)

	status := f.review(admin, false, applied(f.fleet("a", 9)), applied(f.fleet("b", 1)))

	f.wantResults(status, fits, doesNotFit)
	if o := status.Objects[0]; !strings.Contains(o.Message, "does not review updates") {
		t.Errorf("got the message %q, want it to say that the policy does not review updates", o.Message)
	}
}

// foretoldLimit is the quota of worlds in which reviews foretell sets of changes.
const foretoldLimit = 12

// wantSetsForetold reviews generated sets of changes, and then makes them. waitSettled waits until reviews and creates
// see the effects of a set.
func (f *followed) wantSetsForetold(waitSettled func()) {
	f.Helper()
	for set := range setsFromEnvironment(f.T) {
		random := rand.New(rand.NewPCG(1, uint64(set)))
		present := map[string]int64{}
		for _, object := range f.fleets() {
			present[object.GetName()] = replicasOf([]unstructured.Unstructured{object})
		}
		var asked []quotav1alpha1.ReviewedObject
		var steps []step
		for _, n := range random.Perm(6)[:1+random.IntN(4)] {
			s := step{object: f.fleet(fmt.Sprint("f", n), int64(random.IntN(6)))}
			var before int64
			before, s.exists = present[s.object.GetName()]
			s.deletes = s.exists && random.IntN(3) == 0
			s.shrinks = s.deletes || replicasOf([]unstructured.Unstructured{*s.object}) <= before
			steps = append(steps, s)
			if s.deletes {
				asked = append(asked, deleted(s.object))
			} else {
				asked = append(asked, applied(s.object))
			}
		}
		status := f.review(admin, false, asked...)
		for _, shrinks := range []bool{true, false} {
			for i, s := range steps {
				if s.shrinks == shrinks {
					f.wantForetold(s, &status.Objects[i])
				}
			}
			waitSettled()
		}
	}
}

// waitCounted waits until a review knows what each fleet demands, and what all of them use.
func (f *followed) waitCounted() {
	f.Helper()
	var asked []quotav1alpha1.ReviewedObject
	var want []int64
	var total int64
	for _, object := range f.fleets() {
		asked = append(asked, deleted(f.fleet(object.GetName(), 0)))
		want = append(want, replicasOf([]unstructured.Unstructured{object}))
		total += want[len(want)-1]
	}
	asked = append(asked, applied(f.fleet("more", 1)))

	eventually(f, func() error {
		status := f.review(admin, false, asked...)
		for i := range want {
			var held int64
			for _, charge := range status.Objects[i].Charges {
				held -= charge.Amount
			}
			if held != want[i] {
				return fmt.Errorf("%s holds %d by the review, want %d", status.Objects[i].Name, held, want[i])
			}
		}
		for _, quota := range status.Quotas {
			if quota.Used != total {
				return fmt.Errorf("%d is used by the review, want %d", quota.Used, total)
			}
		}
		return nil
	})
}

// setsFromEnvironment is the number of generated sets: 60, or the value of SETS.
func setsFromEnvironment(t *testing.T) int {
	t.Helper()
	text := os.Getenv("SETS")
	if text == "" {
		return 60
	}
	sets, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("SETS=%s: %v", text, err)
	}
	return sets
}

// step is one change of a set.
type step struct {
	object                   *unstructured.Unstructured
	exists, deletes, shrinks bool
}

// wantForetold takes a step, and compares its result with the review's.
func (f *followed) wantForetold(s step, foretold *quotav1alpha1.ReviewedObjectResult) {
	f.Helper()
	var err error
	replicas := replicasOf([]unstructured.Unstructured{*s.object})
	switch {
	case s.deletes:
		err = admin.Delete(f.ctx, s.object)
	case s.exists:
		err = f.resize(s.object.GetName(), replicas)
	default:
		err = admin.Create(f.ctx, s.object)
	}
	switch {
	case foretold.Result == fits && err != nil:
		f.Fatalf("%s with %d replicas was to fit: %v", s.object.GetName(), replicas, err)
	case foretold.Result == doesNotFit && !apierrors.IsForbidden(err):
		f.Fatalf("%s with %d replicas was to be denied (%s), got %v", s.object.GetName(), replicas, foretold.Message, err)
	case foretold.Result == untold:
		f.Fatalf("the review does not know whether %s fits: %s", s.object.GetName(), foretold.Message)
	}
}

// waitSettled waits until reviews and creates see the steps.
func (f *followed) waitSettled() {
	f.Helper()
	total := replicasOf(f.fleets())
	eventually(f, func() error {
		var charged int64
		for _, claim := range f.claims() {
			charged += claim.Spec.Requests[0].Amount
			if claim.DeletionTimestamp != nil {
				return fmt.Errorf("claim %s is being deleted", claim.Name)
			}
		}
		if charged != total {
			return fmt.Errorf("%d is charged, want %d", charged, total)
		}
		return nil
	})
}

// userWith returns the client of a user with exactly the permissions in rules, once the API server knows them. Each is
// as from [ruleFor].
func (w *world) userWith(rules ...rbacv1.PolicyRule) client.Client {
	w.Helper()
	name := fmt.Sprintf("%s-%d", w.name, len(rules))
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	w.mustCreate(role)
	w.mustCreate(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	})
	for _, rule := range rules {
		w.waitMay(name, authorizationv1.ResourceAttributes{Verb: rule.Verbs[0], Group: rule.APIGroups[0], Version: "*", Resource: rule.Resources[0]})
	}
	config := rest.CopyConfig(started.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: name}
	user, err := client.New(config, client.Options{Scheme: admin.Scheme()})
	must(w, err)
	return user
}

func ruleFor(group, resource, verb string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{verb}}
}
