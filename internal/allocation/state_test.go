package allocation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const pods corev1.ResourceName = "pods"

func amount(n int64) corev1.ResourceList {
	return corev1.ResourceList{pods: *resource.NewQuantity(n, resource.DecimalSI)}
}

func allocation(limit int64) *quotav1alpha1.ResourceQuotaAllocation {
	return &quotav1alpha1.ResourceQuotaAllocation{
		ObjectMeta: metav1.ObjectMeta{Name: "team", UID: "u", Generation: 1, ResourceVersion: "1"},
		Spec:       quotav1alpha1.ResourceQuotaAllocationSpec{Allocation: corev1.ResourceQuotaSpec{Hard: amount(limit)}},
	}
}

func stateOf(t interface{ Fatal(...any) }, object *quotav1alpha1.ResourceQuotaAllocation, ledger *quotav1alpha1.AllocationLedger) *State {
	b, err := New(object, ledger)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// newState is the state of a new allocation without observations.
func newState(t interface{ Fatal(...any) }, limit int64) *State {
	return stateOf(t, allocation(limit), nil)
}

// storage is the allocation and its ledger as an API server has them.
type storage struct {
	object *quotav1alpha1.ResourceQuotaAllocation
	ledger *quotav1alpha1.AllocationLedger
	writes int // of the ledger
}

// replica decides by the state of its latest read or write. If it has written the status and has to write the ledger,
// it does so next.
type replica struct {
	*storage
	state  *State
	writes int
	isHalf bool
	// seen are its observed versions of the ResourceQuotas and of the namespaces.
	seen [2]int
}

func (r *replica) read(t interface{ Fatal(...any) }) {
	r.state, r.writes, r.isHalf = stateOf(t, r.object.DeepCopy(), r.ledger.DeepCopy()), r.storage.writes, false
}

// writeStatus and writeLedger report whether no other replica has written since.
func (r *replica) writeStatus() bool {
	updated := r.state.ObjectToStore()
	if updated.ResourceVersion != r.object.ResourceVersion {
		return false
	}
	version, _ := strconv.Atoi(updated.ResourceVersion)
	updated.ResourceVersion = strconv.Itoa(version + 1)
	r.object = updated
	r.state.StatusStored(updated.DeepCopy())
	return true
}

func (r *replica) writeLedger() bool {
	if r.writes != r.storage.writes {
		return false
	}
	r.storage.writes++
	r.ledger, r.writes, r.isHalf = r.state.LedgerToStore().DeepCopy(), r.storage.writes, false
	r.state.LedgerStored()
	return true
}

// cluster is ResourceQuotas as in an API server, with its state at each version before.
type cluster struct {
	past []map[types.NamespacedName]storedQuota // by version
	gone map[types.UID]int                      // the version of a ResourceQuota's deletion
	// selected is the first version of a namespace with the selected labels.
	selected map[string]int
	made     int
}

type storedQuota struct {
	uid     types.UID
	version int
	amount  int64
}

func (c *cluster) version() int                              { return len(c.past) - 1 }
func (c *cluster) now() map[types.NamespacedName]storedQuota { return c.past[c.version()] }
func (c *cluster) change(f func(map[types.NamespacedName]storedQuota)) {
	next := maps.Clone(c.now())
	f(next)
	c.past = append(c.past, next)
}

func (c *cluster) put(name types.NamespacedName, uid types.UID, amount int64) {
	c.change(func(quotas map[types.NamespacedName]storedQuota) {
		quotas[name] = storedQuota{uid, len(c.past), amount}
	})
}

// taken is the largest amount in each member namespace at a version.
func (c *cluster) taken(version int) map[string]int64 {
	taken := map[string]int64{}
	for name, q := range c.past[version] {
		taken[name.Namespace] = max(taken[name.Namespace], q.amount)
	}
	return taken
}

// observe is the observation of a replica with the ResourceQuotas up to a version, and the namespaces up to another.
func (c *cluster) observe(version, namespaces int, changes []QuotaChange) Observation {
	o := Observation{
		Versions: quotav1alpha1.ObservedResourceQuotas{ResourceQuotas: strconv.Itoa(version), Namespaces: strconv.Itoa(namespaces)}, Used: map[string]corev1.ResourceList{},
		Quotas: map[types.NamespacedName]QuotaVersion{}, Deleted: map[types.UID]bool{},
	}
	for namespace, taken := range c.taken(version) {
		if selected := c.selected[namespace]; selected > 0 && selected <= namespaces {
			o.Used[namespace] = amount(taken)
		}
	}
	for _, change := range changes {
		name := types.NamespacedName{Namespace: change.Namespace, Name: change.Name}
		if q, ok := c.past[version][name]; ok {
			o.Quotas[name] = QuotaVersion{q.uid, strconv.Itoa(q.version)}
		}
		if deleted, ok := c.gone[change.UID]; ok && deleted <= version {
			o.Deleted[change.UID] = true
		}
	}
	return o
}

// TestNoMoreThanTheCap increases, decreases and deletes ResourceQuotas in any order. The cluster executes requests late
// or never. Several replicas have observed more or less of the cluster and of each other, and stop at any point. The
// member namespaces never take more than the cap, and the state never misses anything. Once a replica has observed
// everything, its state equals the cluster.
func TestNoMoreThanTheCap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 20
		c := &cluster{past: []map[types.NamespacedName]storedQuota{{}, {}}, gone: map[types.UID]int{}, selected: map[string]int{}}
		stored := &storage{object: allocation(limit)}
		var replicas []*replica
		for range 3 {
			replicas = append(replicas, &replica{storage: stored, seen: [2]int{1, 1}})
		}
		anyReplica := rapid.SampledFrom(replicas)
		var admitted []QuotaChange
		names := []types.NamespacedName{{Namespace: "a", Name: "x"}, {Namespace: "a", Name: "y"}, {Namespace: "b", Name: "x"}, {Namespace: "c", Name: "x"}}
		anyName := rapid.SampledFrom(names)
		// reconcile brings the stored state in line with the observation of a replica, as far as it gets.
		reconcile := func(t *rapid.T, r *replica, observed *State, steps int) {
			if observed == r.state {
				return
			}
			r.state = observed
			if !r.writeStatus() {
				r.read(t)
				return
			}
			if r.isHalf = r.state.IsRoomChanged(); steps > 1 && !r.writeLedger() {
				r.read(t)
			}
		}
		reconcileLive := func(t *rapid.T, r *replica, steps int) {
			r.read(t)
			observed, err := r.state.ObserveLive(c.observe(c.version(), c.version(), r.state.Pending()))
			if err != nil {
				t.Fatal(err)
			}
			reconcile(t, r, observed, steps)
		}
		for _, r := range replicas {
			reconcileLive(t, r, 2)
		}
		t.Repeat(map[string]func(*rapid.T){
			"admit": func(t *rapid.T) {
				name, to := anyName.Draw(t, "name"), rapid.Int64Range(1, limit+2).Draw(t, "to")
				change := QuotaChange{ID: fmt.Sprint(c.made), Namespace: name.Namespace, Name: name.Name, UID: types.UID(fmt.Sprint("uid-", c.made)), Hard: amount(to)}
				if c.made++; c.selected[name.Namespace] == 0 {
					c.change(func(map[types.NamespacedName]storedQuota) { c.selected[name.Namespace] = len(c.past) })
				}
				change.NamespaceVersion = strconv.Itoa(c.selected[name.Namespace])
				if q, ok := c.now()[name]; ok {
					change.UID, change.ResourceVersion = q.uid, strconv.Itoa(q.version)
					if to <= q.amount {
						c.put(name, q.uid, to) // nobody asks about a change to less or the same
						return
					}
				}
				r := anyReplica.Draw(t, "replica")
				for range 2 {
					if r.isHalf {
						break
					}
					shortages, _ := r.state.Admit(change)
					if len(shortages) > 0 {
						return
					}
					if r.writeLedger() {
						admitted = append(admitted, change)
						return
					}
					r.read(t)
				}
			},
			"carry out": func(t *rapid.T) {
				if len(admitted) == 0 {
					t.Skip("nothing is admitted")
				}
				i := rapid.IntRange(0, len(admitted)-1).Draw(t, "which")
				change := admitted[i]
				admitted = slices.Delete(admitted, i, i+1)
				name := types.NamespacedName{Namespace: change.Namespace, Name: change.Name}
				q, exists := c.now()[name]
				wanted := change.Hard[pods]
				if change.ResourceVersion == "" && !exists || exists && change.ResourceVersion == strconv.Itoa(q.version) {
					c.put(name, change.UID, wanted.Value())
				}
			},
			"touch": func(t *rapid.T) { // a write of its status
				if q, ok := c.now()[anyName.Draw(t, "name")]; ok {
					for name := range c.now() {
						if c.now()[name].uid == q.uid {
							c.put(name, q.uid, q.amount)
						}
					}
				}
			},
			"delete": func(t *rapid.T) {
				name := anyName.Draw(t, "name")
				if q, ok := c.now()[name]; ok {
					c.change(func(quotas map[types.NamespacedName]storedQuota) { delete(quotas, name) })
					c.gone[q.uid] = c.version()
				}
			},
			"observe": func(t *rapid.T) {
				r := anyReplica.Draw(t, "replica")
				if r.isHalf {
					t.Skip("it has something to write")
				}
				r.seen[0] = rapid.IntRange(r.seen[0], c.version()).Draw(t, "version")
				r.seen[1] = rapid.IntRange(r.seen[1], c.version()).Draw(t, "version of namespaces")
				observed, err := r.state.Observe(c.observe(r.seen[0], r.seen[1], r.state.Pending()))
				if err == ErrBehind { //nolint:errorlint // as documented
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				reconcile(t, r, observed, rapid.IntRange(1, 2).Draw(t, "steps"))
			},
			"observe live": func(t *rapid.T) {
				reconcileLive(t, anyReplica.Draw(t, "replica"), rapid.IntRange(1, 2).Draw(t, "steps"))
			},
			"go on": func(t *rapid.T) {
				if r := anyReplica.Draw(t, "replica"); r.isHalf && !r.writeLedger() {
					r.read(t)
				}
			},
			"start again": func(t *rapid.T) { anyReplica.Draw(t, "replica").read(t) },
			"": func(t *rapid.T) {
				b, sum := stateOf(t, stored.object, stored.ledger), int64(0)
				for namespace, taken := range c.taken(c.version()) {
					sum += taken
					counted := b.taken[namespace][pods]
					if counted.Value() < taken {
						t.Fatalf("namespace %s takes %d, and the state has %s", namespace, taken, counted.String())
					}
				}
				if sum > limit {
					t.Fatalf("%d of %d are taken", sum, limit)
				}
			},
		})
		// Cancel unexecuted changes once their time is over.
		r := replicas[0]
		r.read(t)
		for _, change := range slices.Clone(r.state.Pending()) {
			q, exists := c.now()[types.NamespacedName{Namespace: change.Namespace, Name: change.Name}]
			isMade := exists && q.uid == change.UID && change.ResourceVersion == ""
			if change.ResourceVersion != "" {
				isMade = !exists || q.uid != change.UID || change.ResourceVersion != strconv.Itoa(q.version)
			}
			if !isMade {
				r.state.Cancel(change.ID)
			}
		}
		r.writeLedger()
		reconcileLive(t, r, 2)
		b := stateOf(t, stored.object, stored.ledger)
		if len(b.Pending()) > 0 {
			t.Fatalf("%v are pending for ever", b.Pending())
		}
		for namespace, taken := range c.taken(c.version()) {
			if counted := b.taken[namespace][pods]; counted.Value() != taken {
				t.Fatalf("namespace %s takes %d, and the state has %s", namespace, taken, counted.String())
			}
		}
	})
}

func TestAdmit(t *testing.T) {
	b := newState(t, 10)
	change := func(id, namespace string, to int64) QuotaChange {
		return QuotaChange{ID: id, Namespace: namespace, Name: "default", UID: types.UID(id), Hard: amount(to), AdmittedAt: metav1.NewTime(time.Unix(0, 0))}
	}
	for _, r := range []QuotaChange{change("1", "web", 4), change("2", "web", 6), change("3", "web", 5), change("4", "shop", 4)} {
		if shortages, isPending := b.Admit(r); len(shortages) > 0 || !isPending {
			t.Errorf("change %s of %s: %v, pending: %t", r.ID, r.Namespace, shortages, isPending)
		}
	}
	shortages, _ := b.Admit(change("5", "shop", 7))
	want := []Shortage{{Resource: pods, Requested: resource.MustParse("7"), Held: resource.MustParse("4"), Allocated: resource.MustParse("10"), Limit: resource.MustParse("10")}}
	if diff := cmp.Diff(want, shortages); diff != "" {
		t.Errorf("shortages (-want +got):\n%s", diff)
	}
	if got := shortages[0].Possible(); got != "4" {
		t.Errorf("shop may have up to %s, want 4", got)
	}
	if _, isPending := b.Admit(QuotaChange{ID: "6", Namespace: "web", Hard: corev1.ResourceList{"cpu": resource.MustParse("1")}}); isPending {
		t.Error("what is not capped is booked")
	}
	if !b.Cancel("2") || b.Cancel("2") {
		t.Error("a change is canceled once")
	}
	if got := b.taken["web"][pods]; got.Value() != 5 {
		t.Errorf("web takes %s after the largest was canceled, want 5", got.String())
	}
	if diff := cmp.Diff([]Holder{{"web", resource.MustParse("5")}, {"shop", resource.MustParse("4")}}, b.Holders(pods)); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
}

func TestUpdated(t *testing.T) {
	b := newState(t, 10)
	c := &cluster{past: []map[types.NamespacedName]storedQuota{{}, {}}, selected: map[string]int{"web": 1, "empty": 1}}
	c.put(types.NamespacedName{Namespace: "web", Name: "default"}, "u", 12)
	c.put(types.NamespacedName{Namespace: "empty", Name: "default"}, "v", 0)
	b, err := b.Observe(c.observe(c.version(), c.version(), nil))
	if err != nil {
		t.Fatal(err)
	}
	if !b.IsStatusChanged() || !b.IsRoomChanged() || b.IsStatusCurrent() {
		t.Error("what is observed first makes no difference")
	}
	status := b.ObjectToStore().Status
	if diff := cmp.Diff([]quotav1alpha1.NamespacedResourceList{{Namespace: "web", Used: amount(12)}}, status.UsedByProject); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
	if used := status.Allocated.Used[pods]; used.Value() != 12 || status.ObservedGeneration != 1 || status.Observed.ResourceQuotas != "3" {
		t.Errorf("the status is %v", status)
	}
	condition := apimeta.FindStatusCondition(status.Conditions, quotav1alpha1.ConditionExceeded)
	if condition == nil || condition.Status != metav1.ConditionTrue || condition.Message[:len("the ResourceQuotas exceed the cap: 12 of 10 pods")] != "the ResourceQuotas exceed the cap: 12 of 10 pods" {
		t.Errorf("the condition is %v", condition)
	}
	local := b.Local("other")
	if available := local.Available[pods]; !available.IsZero() {
		t.Errorf("%s are available to others", available.String())
	}
	if shortages := b.Check(QuotaChange{Namespace: "web", Hard: amount(11)}); len(shortages) > 0 {
		t.Errorf("a change was denied that lets web take no more: %v", shortages)
	}
	again := stateOf(t, b.ObjectToStore(), b.LedgerToStore())
	if same, err := again.Observe(c.observe(c.version(), c.version(), nil)); same != again || err != nil || !again.IsStatusCurrent() {
		t.Errorf("the same is observed, and the state changes: %v", err)
	}
	if _, err := again.Observe(c.observe(1, 1, nil)); err != ErrBehind { //nolint:errorlint // as documented
		t.Errorf("an older observation is taken: %v", err)
	}
}

// Clients decode an answer into the given object while the state is in use.
func TestStoredObjectsAreNotShared(t *testing.T) {
	object := allocation(10)
	object.Status.UsedByProject = []quotav1alpha1.NamespacedResourceList{{Namespace: "web", Used: amount(4)}}
	b := stateOf(t, object, &quotav1alpha1.AllocationLedger{})
	b.Admit(QuotaChange{ID: "1", Namespace: "web", Hard: amount(5)})
	updated, local := b.ObjectToStore(), b.Local("web")
	for name, list := range map[string]corev1.ResourceList{
		"spec": updated.Spec.Allocation.Hard, "hard": updated.Status.Allocated.Hard, "used": updated.Status.Allocated.Used,
		"namespace":  updated.Status.UsedByProject[0].Used,
		"local hard": local.Allocated.Hard, "local used": local.Allocated.Used, "here": local.Used, "available": local.Available,
	} {
		list[pods] = resource.MustParse("99")
		again, here := b.ObjectToStore(), b.Local("web")
		for _, kept := range []corev1.ResourceList{
			again.Spec.Allocation.Hard, again.Status.Allocated.Hard, again.Status.Allocated.Used, again.Status.UsedByProject[0].Used,
			here.Allocated.Hard, here.Allocated.Used, here.Used, here.Available,
		} {
			if got := kept[pods]; got.Value() == 99 {
				t.Errorf("a change of %s shows in the state", name)
			}
		}
	}
}

func TestScopesOf(t *testing.T) {
	selector := func(name corev1.ResourceQuotaScope, operator corev1.ScopeSelectorOperator, values ...string) *corev1.ScopeSelector {
		return &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{ScopeName: name, Operator: operator, Values: values}}}
	}
	specs := map[string]corev1.ResourceQuotaSpec{
		"none":        {},
		"terminating": {Scopes: []corev1.ResourceQuotaScope{"Terminating"}},
		"two":         {Scopes: []corev1.ResourceQuotaScope{"Terminating", "NotBestEffort"}},
		"high":        {ScopeSelector: selector("PriorityClass", "In", "high")},
		"both":        {ScopeSelector: selector("PriorityClass", "In", "high", "low")},
		"not high":    {ScopeSelector: selector("PriorityClass", "NotIn", "high")},
	}
	same := map[string]corev1.ResourceQuotaSpec{
		"terminating": {ScopeSelector: selector("Terminating", "Exists")},
		"two":         {Scopes: []corev1.ResourceQuotaScope{"NotBestEffort"}, ScopeSelector: selector("Terminating", "Exists")},
		"both":        {ScopeSelector: selector("PriorityClass", "In", "low", "high")},
	}
	seen := map[Scopes]string{}
	for name, spec := range specs {
		scopes := ScopesOf(&spec)
		if other, ok := seen[scopes]; ok {
			t.Errorf("%s and %s are the same: %q", name, other, scopes)
		}
		seen[scopes] = name
		if other, ok := same[name]; ok && ScopesOf(&other) != scopes {
			t.Errorf("%s can be said in two ways, %q and %q", name, scopes, ScopesOf(&other))
		}
	}
}
