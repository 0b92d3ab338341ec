package kubernetes

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/process"
)

const (
	// tenantLabel on a namespace names the Tenant that pays, by the policies of examples/resourcequota.
	tenantLabel = "quota.example.com/tenant"
	// hold is a finalizer of the test.
	hold = "example.com/hold"
	// livesSteps is the length of a life.
	livesSteps = 20
)

// hardOf are the limits of a life, by name in a ResourceQuota. In a tight life, random steps reach all of them.
func hardOf(isTight bool) corev1.ResourceList {
	hard := corev1.ResourceList{}
	for name, limits := range map[corev1.ResourceName][2]string{
		"pods": {"1k", "4"}, "count/pods": {"1k", "5"},
		"requests.cpu": {"1k", "1500m"}, "requests.memory": {"1Ti", "1Gi"}, "requests.ephemeral-storage": {"1Ti", "1Gi"},
		"limits.cpu": {"1k", "8"}, "limits.memory": {"1Ti", "12Gi"},
		"persistentvolumeclaims": {"1k", "3"}, "requests.storage": {"1Ti", "12Gi"},
		"gold.storageclass.storage.k8s.io/persistentvolumeclaims": {"1k", "2"}, "gold.storageclass.storage.k8s.io/requests.storage": {"1Ti", "8Gi"},
		"services": {"1k", "4"}, "services.loadbalancers": {"1k", "1"}, "services.nodeports": {"1k", "3"},
		"configmaps": {"1k", "3"}, "count/jobs.batch": {"1k", "2"},
	} {
		hard[name] = resource.MustParse(limits[0])
		if isTight {
			hard[name] = resource.MustParse(limits[1])
		}
	}
	return hard
}

// testLives lets objects live the same random lives in two namespaces: in one, a core ResourceQuota counts and denies,
// in the other Bursar does, by the policies of examples/resourcequota. After each step both say the same. LIVES is the
// number of lives, and SEED repeats one of them.
func testLives(n *team) {
	for _, file := range []string{"1-platform.yaml", "2-registrations.yaml", "3-policies.yaml"} {
		n.kubectl(n.T, "", "apply", "--server-side", "--filename", "../../../examples/resourcequota/"+file)
	}
	n.kubectl(n.T, "", "wait", "--for=condition=Ready", "--timeout=2m", "--filename", "../../../examples/resourcequota/3-policies.yaml")
	n.create(
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "gold"}, Provisioner: "example.com/none", AllowVolumeExpansion: new(true)},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "silver"}, Provisioner: "example.com/none", AllowVolumeExpansion: new(true)},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "lives"}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("1k"), corev1.ResourceMemory: resource.MustParse("1Ti"),
		}}},
		&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "lives"}, Handler: "lives", Overhead: &nodev1.Overhead{PodFixed: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("10Mi"),
		}}},
	)
	hasResize := n.serves(n.T, "v1", "pods/resize")

	var seeds []uint64
	if text := os.Getenv("SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		n.must(err)
		seeds = append(seeds, seed)
	}
	for len(seeds) == 0 || os.Getenv("SEED") == "" && len(seeds) < process.Count(n.T, "LIVES", 4) {
		seeds = append(seeds, 2*rand.Uint64N(500_000)+uint64(len(seeds)%2)) // even and odd ones
	}
	for _, seed := range seeds {
		n.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			(&life{T: t, world: n.world, Rand: rand.New(rand.NewPCG(seed, 0)), seed: seed, hasResize: hasResize}).run()
		})
	}
}

// side is one of the two namespaces of a life.
type side int

const (
	byCore side = iota
	byBursar
)

// life is a life of objects in two namespaces. Objects have the same names in both.
type life struct {
	*testing.T
	*world
	*rand.Rand
	seed uint64
	// isTight has limits that the steps reach.
	isTight, hasResize bool
	// made is the number of objects so far, for their names.
	made int
	// steps are those so far, for people.
	steps []string
}

func (l *life) namespace(s side) string {
	return fmt.Sprintf("life-%d-%s", l.seed, []string{"core", "bursar"}[s])
}

func (l *life) tenant() string { return fmt.Sprint("tenant-", l.seed) }

func (l *life) heir() string { return fmt.Sprint("heir-", l.seed) }

func (l *life) run() {
	l.Cleanup(func() {
		if l.Failed() {
			l.Logf("repeat it with SEED=%d go test -run 'TestKubernetes/group/Lives$' ./test/campaign/kubernetes\n%s", l.seed, strings.Join(l.steps, "\n"))
		}
	})
	l.isTight = l.seed%2 == 1
	l.begin()
	for range livesSteps {
		l.step()
		l.settle()
	}
	l.handOver()
	l.end()
}

// begin makes the namespaces with their limits.
func (l *life) begin() {
	hard := hardOf(l.isTight)
	grant := &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Name: l.tenant(), Namespace: l.namespace(byBursar)}}
	grant.Spec.ConsumerRef = tenantRef(l.tenant())
	for name, amount := range hard {
		grant.Spec.Allowances = append(grant.Spec.Allowances, quotav1alpha1.Allowance{
			ResourceType: "quota.example.com/" + string(name), Buckets: []quotav1alpha1.Bucket{{Amount: baseUnits(name, amount)}},
		})
	}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.namespace(byCore)}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.namespace(byBursar), Labels: map[string]string{tenantLabel: l.tenant()}}},
		&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "native", Namespace: l.namespace(byCore)}, Spec: corev1.ResourceQuotaSpec{Hard: hard}},
		grant,
	} {
		if err := l.Create(l.Context(), object); err != nil {
			l.Fatal(err)
		}
	}

	l.eventually(func() error {
		var list quotav1alpha1.ResourceGrantList
		if err := l.List(l.Context(), &list, client.InNamespace(l.namespace(byBursar))); err != nil || len(list.Items) == 0 || len(list.Items[0].Status.Conditions) == 0 {
			return fmt.Errorf("the grant is not reconciled: %w", err)
		}
		for s := range byBursar + 1 { // a Pod needs its account
			if err := l.Get(l.Context(), client.ObjectKey{Namespace: l.namespace(s), Name: "default"}, &corev1.ServiceAccount{}); err != nil {
				return err
			}
		}
		return l.limitsAre(hard)
	})
	l.settle()
}

// limitsAre returns nil once Bursar has all limits in the ledger.
func (l *life) limitsAre(hard corev1.ResourceList) error {
	var buckets quotav1alpha1.AllowanceBucketList
	if err := l.List(l.Context(), &buckets, client.MatchingFields{"spec.consumerRef.name": l.tenant()}); err != nil {
		return err
	}
	if len(buckets.Items) != len(hard) {
		return fmt.Errorf("there are %d buckets, want %d", len(buckets.Items), len(hard))
	}
	return nil
}

// step makes a random step that is possible now.
func (l *life) step() {
	for {
		candidates := l.podSteps()
		if l.IntN(5) < 2 {
			candidates = l.otherSteps()
		}
		if candidates[l.IntN(len(candidates))]() {
			return
		}
	}
}

// both does the same in both namespaces, and expects the same answer. It reports whether both have done it.
func (l *life) both(what string, do func(namespace string) error) bool {
	l.Helper()
	errCore, errBursar := l.retried(do, byCore), l.retried(do, byBursar)
	answer := answerOf(errCore)
	l.steps = append(l.steps, fmt.Sprintf("%s: %s", what, answer))
	if other := answerOf(errBursar); other != answer {
		l.Fatalf("%s: the ResourceQuota answers %v, and Bursar %v", what, errCore, errBursar)
	}
	if errCore != nil && answer != exceeded {
		l.Fatalf("%s: %v", what, errCore) // a mistake of the test
	}
	return errCore == nil
}

// retried does it again after a conflict, because the controllers write, too.
func (l *life) retried(do func(namespace string) error, s side) error {
	for {
		if err := do(l.namespace(s)); !apierrors.IsConflict(err) {
			return err
		}
	}
}

const exceeded = "quota is exceeded"

// answerOf is what both have to agree on.
func answerOf(err error) string {
	switch {
	case err == nil:
		return "done"
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return exceeded
	default:
		return string(apierrors.ReasonForError(err))
	}
}

// handOver gives the namespace to another Tenant, who then pays for everything in it, and the former one for nothing.
func (l *life) handOver() {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.namespace(byBursar)}}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, tenantLabel, l.heir())
	if err := l.Patch(l.Context(), namespace, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		l.Fatal(err)
	}
	l.steps = append(l.steps, "hand over the namespace")
	l.eventually(func() error {
		core, err := l.usedByCore()
		if err != nil {
			return err
		}
		return errors.Join(l.wantObserved(l.heir(), core), l.wantObserved(l.tenant(), usage{}))
	})
}

// end deletes both namespaces. Nothing counts then.
func (l *life) end() {
	for s := range byBursar + 1 {
		if err := l.Delete(l.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.namespace(s)}}); err != nil {
			l.Fatal(err)
		}
	}
	l.steps = append(l.steps, "delete the namespaces")
	l.eventually(func() error {
		for s := range byBursar + 1 {
			if err := l.release(l.namespace(s)); err != nil {
				return err
			}
			var namespace corev1.Namespace
			if err := l.Get(l.Context(), client.ObjectKey{Name: l.namespace(s)}, &namespace); !apierrors.IsNotFound(err) {
				return fmt.Errorf("namespace %s still exists: %v, %+v", l.namespace(s), err, namespace.Status)
			}
		}
		return l.wantObserved(l.heir(), usage{})
	})
}

// release removes what keeps objects of a namespace under deletion: their finalizers, and the grace period of Pods.
func (l *life) release(namespace string) error {
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{}, &batchv1.JobList{}} {
		if err := l.List(l.Context(), list, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, object := range objectsOf(list) {
			if object.GetDeletionTimestamp() == nil {
				continue
			}
			err := l.Delete(l.Context(), object, client.GracePeriodSeconds(0))
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
			if err = errors.Join(client.IgnoreNotFound(err), client.IgnoreNotFound(l.Patch(l.Context(), object, patch))); err != nil {
				return err
			}
		}
	}
	return nil
}
