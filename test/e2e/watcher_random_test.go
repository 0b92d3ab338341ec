package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// randomOwners are the consumers of the namespaces in a random history.
var randomOwners = []string{"acme", "blue", "core"}

// randomHistory makes random changes. After some of them, the inventory must be as a recount of what exists.
type randomHistory struct {
	*watched
	*rand.Rand
	// policies by name, and the factor by which each multiplies sizes.
	policies map[string]*quotav1alpha1.ClaimCreationPolicy
	factors  map[string]int
	created  int
	// interrupted counts the interruptions of the watches of a resource.
	interrupted map[string]int
	before      []snapshot
}

func (h *randomHistory) pick(words ...string) string { return words[h.IntN(len(words))] }

func (h *randomHistory) anyNamespace() string { return h.pick("a", "b", "c") }

func (h *randomHistory) anyObject() (*corev1.ConfigMap, bool) {
	h.Helper()
	var list corev1.ConfigMapList
	must(h.T, h.api.List(h.ctx, &list, client.InNamespace(h.namespace(h.anyNamespace())), client.HasLabels{testLabel}))
	if len(list.Items) == 0 {
		return nil, false
	}
	return &list.Items[h.IntN(len(list.Items))], true
}

// interrupts reports whether a watch may end once more. After each of them its client waits longer.
func (h *randomHistory) interrupts(resource string) bool {
	h.interrupted[resource]++
	return h.interrupted[resource] <= 3
}

// setPolicy declares a policy, or changes it.
func (h *randomHistory) setPolicy(name string) {
	p := h.policies[name]
	if p == nil {
		p = payingOwner(h.policyOf(name, configMapKind, bySize))
		h.policies[name] = p
	}
	h.factors[name] = h.IntN(5) + 1
	p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].AmountExpression = fmt.Sprintf("%d * %s", h.factors[name], bySize)
	h.declare(p)
}

// step makes one change.
func (h *randomHistory) step() {
	h.Helper()
	switch h.IntN(20) {
	default:
		h.created++
		object := h.sized(h.anyNamespace(), fmt.Sprint("object-", h.created), h.IntN(9))
		object.Labels = map[string]string{testLabel: h.name}
		if h.IntN(8) == 0 {
			object.Finalizers = []string{"example.com/wait"}
		}
		h.create(object)
	case 0, 1, 2, 3:
		if object, ok := h.anyObject(); ok {
			object.Data = map[string]string{"size": fmt.Sprint(h.IntN(9))}
			object.Finalizers = nil // so it goes if it is being deleted
			must(h.T, client.IgnoreNotFound(h.api.Update(h.ctx, object)))
		}
	case 4, 5, 6, 7, 8:
		if object, ok := h.anyObject(); ok {
			h.delete(object)
		}
	case 9, 10:
		h.label(h.anyNamespace(), ownerLabel, h.pick(randomOwners...))
	case 11:
		if resource := h.pick("configmaps", "namespaces"); h.interrupts(resource) {
			h.wire.cut(resource)
		}
	case 12:
		if resource := h.pick("configmaps", "namespaces"); h.interrupts(resource) {
			h.wire.refuse(1, http.StatusGone, metav1.StatusReasonExpired, isWatchOf(resource))
			h.wire.cut(resource)
		}
	case 13:
		h.setPolicy(h.pick("one", "two"))
	case 14:
		if name := h.pick("one", "two"); h.policies[name] != nil && len(h.policies) > 1 {
			h.remove(h.policies[name])
			delete(h.policies, name)
			delete(h.factors, name)
		}
	case 15:
		delay := h.wire.holdEvents(h.pick("configmaps", "namespaces"), "")
		time.AfterFunc(time.Duration(h.IntN(300))*time.Millisecond, delay.end)
	case 16:
		if h.IntN(3) == 0 {
			name := h.anyNamespace()
			h.freeObjects(name)
			h.endNamespace(name)
			h.newNamespace(name, ownerLabel, h.pick(randomOwners...))
		}
	}
}

// freeObjects removes the finalizers from the objects of a namespace.
func (h *randomHistory) freeObjects(namespace string) {
	h.Helper()
	var list corev1.ConfigMapList
	must(h.T, h.api.List(h.ctx, &list, client.InNamespace(h.namespace(namespace))))
	for i := range list.Items {
		if object := &list.Items[i]; len(object.Finalizers) > 0 {
			object.Finalizers = nil
			must(h.T, client.IgnoreNotFound(h.api.Update(h.ctx, object)))
		}
	}
}

// recount adds up what exists, without a policy: by consumer, what the objects demand.
func (h *randomHistory) recount() map[string]string {
	h.Helper()
	var namespaces corev1.NamespaceList
	must(h.T, h.api.List(h.ctx, &namespaces))
	var objects corev1.ConfigMapList
	must(h.T, h.api.List(h.ctx, &objects))
	owners, sums, counts := map[string]string{}, map[string]int{}, map[string]int{}
	for i := range namespaces.Items {
		owners[namespaces.Items[i].Name] = namespaces.Items[i].Labels[ownerLabel]
	}
	for i := range objects.Items {
		object := &objects.Items[i]
		var size int
		if _, err := fmt.Sscan(object.Data["size"], &size); err != nil || size == 0 || !strings.HasPrefix(object.Namespace, h.name+"-") {
			continue
		}
		owner := owners[object.Namespace]
		for _, factor := range h.factors {
			sums[owner] += factor * size
			counts[owner]++ // once for each policy
		}
	}
	texts := map[string]string{}
	for _, owner := range randomOwners {
		if texts[owner] = ""; counts[owner] > 0 {
			texts[owner] = fmt.Sprintf("%d by %d", sums[owner], counts[owner])
		}
	}
	return texts
}

// compare waits until the inventory is as a recount. Nothing else changes meanwhile.
func (h *randomHistory) compare() {
	h.Helper()
	want := h.recount()
	eventually(h.T, func() error {
		var errs []error
		for consumer, demand := range want {
			if got := h.demand(consumer); got != demand {
				errs = append(errs, fmt.Errorf("the demand of %s is %q, want %q", consumer, got, demand))
			}
		}
		return errors.Join(errs...)
	})
}

// note remembers the present demand, and compares with former ones.
func (h *randomHistory) note() {
	h.Helper()
	for _, before := range h.before {
		h.wantTraceable(before)
	}
	h.before = h.before[max(0, len(h.before)-30):]
	for _, consumer := range randomOwners {
		if s := h.snapshot(consumer); s.Basis.Objects > 0 {
			h.before = append(h.before, s)
		}
	}
}

// TestWatcherIsARecount makes some hundred random changes, with bad connections, and compares the inventory with what
// exists.
func TestWatcherIsARecount(t *testing.T) {
	t.Parallel()
	const rounds, steps = 15, 24
	seed := uint64(time.Now().UnixNano())
	t.Logf("the seed is %d", seed)
	h := &randomHistory{
		watched: newWatched(t), Rand: rand.New(rand.NewPCG(seed, 0)),
		policies: map[string]*quotav1alpha1.ClaimCreationPolicy{}, factors: map[string]int{},
		interrupted: map[string]int{},
	}
	for i, name := range []string{"a", "b", "c"} {
		h.newNamespace(name, ownerLabel, randomOwners[i])
	}
	h.setPolicy("one")
	for range rounds {
		for range steps {
			h.step()
			h.note()
		}
		h.compare()
	}
	for _, name := range []string{"a", "b", "c"} {
		h.freeObjects(name)
	}
}
