package resourcequota

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func TestDenialNamesShortages(t *testing.T) {
	w := newWorld(t)
	w.used = map[string]corev1.ResourceList{"web": list("pods=2", "services=3"), "shop": list("pods=6")}
	w.allocation("acme", "pods=10", "services=4", "secrets=1")
	w.allocation("small", "services=2")
	request := create(t, "pods=7", "services=5", "secrets=1")
	request.UserInfo.Username = "jane"
	w.handler.Permissions = permissions(func(user string, _ authorizationv1.ResourceAttributes) (bool, error) {
		return user == "jane", nil
	})
	const (
		pods = "exceeded ResourceQuotaAllocation: acme, requested: pods=7, allocated: pods=8, limited: pods=10 " +
			"(namespace web holds 2 and may have up to 4); held by shop 6, web 2"
		services = "exceeded ResourceQuotaAllocation: acme, requested: services=5, allocated: services=3, limited: services=4 " +
			"(namespace web holds 3 and may have up to 4); held by web 3"
		over = "exceeded ResourceQuotaAllocation: small, requested: services=5, allocated: services=3, limited: services=2 " +
			"(namespace web holds 3 and may have up to 3); held by web 3"
	)
	cause := func(name, message string) metav1.StatusCause {
		return metav1.StatusCause{Type: quotav1alpha1.CauseAllocationExceeded, Field: "spec.hard[" + name + "]", Message: message}
	}
	want := &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Message: pods + "; " + services + "; " + over + ". Ask for less, lower another ResourceQuota that counts, or ask an administrator to raise the allocation.",
		Details: &metav1.StatusDetails{
			Kind: "resourcequotas", Name: "default", Causes: []metav1.StatusCause{cause("pods", pods), cause("services", services), cause("services", over)},
		},
	}
	if diff := cmp.Diff(want, w.review(request).Result); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A denial names the scopes of its cap, which stands beside others of the same resource.
func TestDenialNamesScopes(t *testing.T) {
	w := newWorld(t)
	scoped := []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}
	w.declare(&quotav1alpha1.ResourceQuotaAllocation{
		ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "acme", Generation: 1},
		Spec: quotav1alpha1.ResourceQuotaAllocationSpec{
			Selector: metav1.LabelSelector{MatchLabels: team}, Allocation: corev1.ResourceQuotaSpec{Hard: list("pods=2"), Scopes: scoped},
		},
	})
	quota := quotaOf("pods=3")
	quota.Spec.Scopes = scoped
	request := create(t)
	request.Object.Raw = encode(t, quota)

	result := w.review(request).Result

	if want := "exceeded ResourceQuotaAllocation: acme (Terminating), requested: pods=3"; result == nil || !strings.HasPrefix(result.Message, want) {
		t.Errorf("got %v, want a denial that begins with %q", result, want)
	}
}

// The amounts of namespaces that the user may not see are one sum.
func TestDenialNamesOnlyVisibleHolders(t *testing.T) {
	few := map[string]int{"web": 1, "shop": 60, "blog": 39}
	many := map[string]int{"a": 17, "b": 16, "c": 15, "d": 14, "e": 13, "f": 12, "web": 13}
	nobody := func(string) (bool, error) { return false, nil }
	for name, tt := range map[string]struct {
		reason string
		used   map[string]int
		// maySee answers whether the user may see a namespace, and with "" whether all of them.
		maySee func(project string) (bool, error)
		want   string
	}{
		"all":     {"who may get the allocation sees everybody", few, func(project string) (bool, error) { return project == "", nil }, "held by shop 60, blog 39, web 1"},
		"own":     {"owners see their projects", few, func(project string) (bool, error) { return project == "web" || project == "blog", nil }, "held by blog 39, web 1, other namespaces 60"},
		"none":    {"nobody is named", few, nobody, "held by other namespaces 100"},
		"unknown": {"what cannot be found out is not shown", few, func(string) (bool, error) { return true, errors.New("no connection") }, "held by other namespaces 100"},
		"partly": {"the rest is shown all the same", few, func(project string) (bool, error) {
			return true, map[bool]error{true: errors.New("no")}[project != "shop"]
		}, "held by shop 60, other namespaces 40"},
		"many":         {"the five that take the most are named", many, func(project string) (bool, error) { return project == "", nil }, "held by a 17, b 16, c 15, d 14, e 13, other namespaces 25"},
		"many, unseen": {"it is one sum", many, nobody, "held by other namespaces 100"},
		"nobody":       {"nobody has any", nil, nobody, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for project, amount := range tt.used {
				w.used[project] = list(fmt.Sprintf("pods=%d", amount))
			}
			w.allocation("acme", "pods=100")
			demands := map[string]int{}
			w.handler.Permissions = permissions(func(_ string, what authorizationv1.ResourceAttributes) (bool, error) {
				demands[what.Name+"/"+what.Namespace]++
				return tt.maySee(what.Namespace)
			})
			answer := w.review(create(t, "pods=101"))
			w.wantStatus(answer, http.StatusForbidden)
			if t.Failed() {
				return
			}
			_, held, _ := strings.Cut(answer.Result.Details.Causes[0].Message, "; ")
			if held != tt.want {
				t.Errorf("%s: got %q, want %q", tt.reason, held, tt.want)
			}
			for project, n := range demands {
				if n > 1 {
					t.Errorf("whether %s may be seen is asked %d times", project, n)
				}
			}
			if len(demands) > 1+holdersMax {
				t.Errorf("the API server is asked %d times for one refusal", len(demands))
			}
		})
	}
}

// The handler looks up permissions once for all shortages.
func TestDenialChecksPermissionOncePerNamespace(t *testing.T) {
	w := newWorld(t)
	w.used["shop"] = list("pods=1", "services=1")
	w.allocation("acme", "pods=1", "services=1")
	demands := 0
	w.handler.Permissions = permissions(func(string, authorizationv1.ResourceAttributes) (bool, error) {
		demands++
		return false, nil
	})
	w.wantStatus(w.review(create(t, "pods=1", "services=1")), http.StatusForbidden, "pods=1", "services=1")
	if demands != 2 {
		t.Errorf("asked %d times, want once about everybody and once about shop", demands)
	}
}
