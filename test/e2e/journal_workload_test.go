package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/test/platform"
)

// tills is a resource type with dimensions. Any service may claim it.
const tills = platform.Group + "/tills"

// declare makes a platform. Organization acme pays there for maps, and acme and globex for tills.
func (r *recorded) declare() {
	r.Helper()
	api := r.as("root")
	platform.DeclareMaps(r, api, 1000)
	registration := unitRegistration()
	registration.Name, registration.Spec.ResourceType, registration.Spec.Dimensions = "tills", tills, []string{"region"}
	must(r, api.Create(r.Context(), registration))
	platform.ProtectMaps(r, api, "ConfigMap")
	must(r, r.grantOf("globex", "globex", 500, api))
}

// grantOf creates a grant of tills.
func (r *recorded) grantOf(name, consumer string, amount int64, as client.Client) error {
	return as.Create(r.Context(), &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: quotav1alpha1.ResourceGrantSpec{
		ConsumerRef: platform.Consumer(consumer), Allowances: []quotav1alpha1.Allowance{{ResourceType: tills, Buckets: []quotav1alpha1.Bucket{{Amount: amount}}}},
	}})
}

// actors are the authors of objects, by kind and name.
type actors struct {
	sync.Mutex
	of map[string]string
}

func (a *actors) note(kind, name, user string) {
	a.Lock()
	defer a.Unlock()
	a.of[kind+" "+name] = user
}

// worker changes quota at random, with objects of its own.
type worker struct {
	*recorded
	api    client.Client
	name   string
	random *rand.Rand
	actors *actors
	number int
	own    map[string][]string // names of existing objects, by kind
}

// step changes something.
func (w *worker) step() error {
	w.number++
	name := fmt.Sprintf("map-%s-%d", w.name, w.number)
	switch w.random.IntN(10) {
	case 0, 1, 2:
		w.actors.note("ConfigMap", name, w.name)
		w.own["ConfigMap"] = append(w.own["ConfigMap"], name)
		return w.api.Create(w.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}})
	case 3:
		return w.remove("ConfigMap", &corev1.ConfigMap{})
	case 4:
		return w.patch("ConfigMap", &corev1.ConfigMap{}, `{"data":{"a":"`+name+`"}}`)
	case 5:
		w.actors.note("ResourceClaim", "default/"+name, w.name)
		w.own["ResourceClaim"] = append(w.own["ResourceClaim"], name)
		return w.api.Create(w.Context(), w.claim(name))
	case 6:
		return w.remove("ResourceClaim", &quotav1alpha1.ResourceClaim{})
	case 7:
		resize := fmt.Sprintf(`[{\"resourceType\":\"%s\",\"amount\":%d}]`, tills, 1+w.random.IntN(5))
		return w.patch("ResourceClaim", &quotav1alpha1.ResourceClaim{}, fmt.Sprintf(`{"metadata":{"annotations":{%q:"%s"}}}`, quotav1alpha1.AnnotationResize, resize))
	case 8:
		w.actors.note("ResourceGrant", "default/"+name, w.name)
		w.own["ResourceGrant"] = append(w.own["ResourceGrant"], name)
		return w.grantOf(name, w.consumer(), 100, w.api)
	default:
		if w.random.IntN(2) == 0 {
			return w.remove("ResourceGrant", &quotav1alpha1.ResourceGrant{})
		}
		return w.patch("ResourceGrant", &quotav1alpha1.ResourceGrant{}, fmt.Sprintf(`{"spec":{"allowances":[{"resourceType":%q,"buckets":[{"amount":%d}]}]}}`, tills, w.random.IntN(100)))
	}
}

func (w *worker) consumer() string { return []string{"acme", "globex"}[w.random.IntN(2)] }

func (w *worker) claim(name string) *quotav1alpha1.ResourceClaim {
	return &quotav1alpha1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: quotav1alpha1.ResourceClaimSpec{
		ConsumerRef: platform.Consumer(w.consumer()), ResourceRef: quotav1alpha1.UnversionedObjectReference{Kind: "ConfigMap", Name: "front", Namespace: "default"},
		Requests: []quotav1alpha1.ResourceRequest{{ResourceType: tills, Amount: 1 + w.random.Int64N(5), Dimensions: map[string]string{"region": []string{"eu", "us"}[w.random.IntN(2)]}}},
	}}
}

// remove deletes one of the worker's objects of a kind.
func (w *worker) remove(kind string, object client.Object) error {
	own := w.own[kind]
	if len(own) == 0 {
		return nil
	}
	i := w.random.IntN(len(own))
	object.SetName(own[i])
	object.SetNamespace("default")
	w.actors.note("deletion of "+kind, "default/"+own[i], w.name)
	w.own[kind] = slices.Delete(own, i, i+1)
	return w.api.Delete(w.Context(), object)
}

// patch changes one of the worker's objects of a kind.
func (w *worker) patch(kind string, object client.Object, patch string) error {
	own := w.own[kind]
	if len(own) == 0 {
		return nil
	}
	object.SetName(own[w.random.IntN(len(own))])
	object.SetNamespace("default")
	return w.api.Patch(w.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// work has three users change quota beside each other.
func (r *recorded) work(round uint64, who *actors) {
	r.Helper()
	var group sync.WaitGroup
	for n, user := range []string{"anna", "bert", "carl"} {
		w := &worker{recorded: r, api: r.as(user), name: user, number: int(round) * 1000, random: rand.New(rand.NewPCG(round, uint64(n))), actors: who, own: map[string][]string{}} //nolint:gosec // the same each time
		group.Go(func() {
			for range 80 {
				if err := w.step(); err != nil {
					r.Errorf("%s: %v", user, err)
				}
			}
		})
	}
	group.Wait()
}

// period gives acme quota for some seconds.
func (r *recorded) period(name string, who *actors) {
	r.Helper()
	who.note("ResourceGrant", "default/"+name, "dora")
	grant := &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: quotav1alpha1.ResourceGrantSpec{
		ConsumerRef: platform.Consumer("acme"), Period: quotav1alpha1.Period{NotAfter: in(3 * time.Second)},
		Allowances: []quotav1alpha1.Allowance{{ResourceType: tills, Buckets: []quotav1alpha1.Bucket{{Amount: 7}}}},
	}}
	must(r, r.as("dora").Create(r.Context(), grant))
	eventually(r, func() error {
		if err := r.server.Admin.Get(r.Context(), client.ObjectKeyFromObject(grant), grant); err != nil {
			return err
		}
		if c := apimeta.FindStatusCondition(grant.Status.Conditions, quotav1alpha1.ConditionActive); c == nil || c.Reason != quotav1alpha1.ReasonExpired {
			return fmt.Errorf("the grant has not ended: %+v", c)
		}
		return nil
	})
}

// checkActors compares the actors of entries with the users of the requests.
func (r *recorded) checkActors(entries []journal.Entry, who *actors) {
	r.Helper()
	seen := map[journal.Kind]int{}
	for i := range entries {
		e := &entries[i]
		seen[e.Kind]++
		isLast := !slices.ContainsFunc(entries[i+1:], func(later journal.Entry) bool { return later.Grant == e.Grant })
		if by, isDeleted := who.of["deletion of ResourceGrant "+e.Grant]; e.Kind == journal.LimitChanged && isDeleted && isLast && e.Actor != by {
			r.Fatalf("ResourceGrant %s was deleted by %q, want %q: %+v", e.Grant, e.Actor, by, *e)
		}
		var of string
		switch {
		case e.Kind == journal.LimitChanged && e.Change > 0:
			of = "ResourceGrant " + e.Grant
		case e.Kind == journal.Admitted && e.Claim == "":
			of = "ConfigMap " + e.Object.Name
		case e.Kind == journal.Admitted:
			of = "ResourceClaim " + e.Claim
		default:
			continue
		}
		if want, known := who.of[of]; known && e.Actor != want {
			r.Fatalf("%s of %s is by %q, want %q: %+v", e.Kind, of, e.Actor, want, *e)
		} else if !known && e.Actor != "root" {
			r.Fatalf("%s of %s is by %q, want root", e.Kind, of, e.Actor)
		}
	}
	for _, kind := range []journal.Kind{journal.Admitted, journal.Changed, journal.Released, journal.LimitChanged, journal.Opened} {
		if seen[kind] == 0 {
			r.Errorf("nothing is %s among %v", kind, seen)
		}
	}
}
