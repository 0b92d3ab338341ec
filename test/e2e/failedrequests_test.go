package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// A ResourceQuota of core refuses a create that Bursar admitted. Another namespace of the team, or here another object,
// gets the quota at once, long before the life of a reservation ends.
func TestCreateRefusedByResourceQuotaFreesItsQuota(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	core := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "core", Namespace: w.name},
		Spec:       corev1.ResourceQuotaSpec{Hard: list("count/configmaps=0")},
	}
	w.mustCreate(core)
	eventually(w, func() error {
		if err := admin.Get(w.ctx, client.ObjectKeyFromObject(core), core); err != nil {
			return err
		}
		if len(core.Status.Used) == 0 {
			return errors.New("the ResourceQuota is not counted yet")
		}
		return nil
	})

	err := admin.Create(w.ctx, w.configMap("a"))
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota: core") {
		t.Fatalf("got %v, want the ResourceQuota to refuse", err)
	}
	w.mustDelete(core)

	w.serve(w.configMap("b"))
	w.wantBucket(1, 1, 0, 1)
	w.wantExceeded(w.configMap("c"))
}

// serve creates an object as soon as the quota of failed requests is free, and logs how long that takes.
func (w *world) serve(sibling client.Object) {
	w.Helper()
	began := time.Now()
	eventually(w, func() error { return admin.Create(w.ctx, sibling) })
	w.Logf("a sibling of failed requests was served after %s", time.Since(began).Round(time.Millisecond))
}

// Updates beyond etcd's limit fail after their admission, also several at once. A sibling then gets the quota.
func TestUpdatesTooLargeForStorageFreeTheirQuota(t *testing.T) {
	t.Parallel()
	f := newFollowedWorld(t, 5, nil)
	f.mustCreate(f.fleet("a", 1))
	f.wantBucket(5, 1, 4, 1)

	var updates errgroup.Group
	for range 3 {
		updates.Go(func() error {
			object := f.fleet("a", 0)
			if err := admin.Get(f.ctx, client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			object.Object["spec"] = map[string]any{"replicas": int64(5), "note": strings.Repeat("x", 1570<<10)}
			if err := admin.Update(f.ctx, object); err == nil || !strings.Contains(err.Error(), "too large") && codeOf(err) != 413 {
				return fmt.Errorf("got %.300v, want it to be too large", err)
			}
			return nil
		})
	}
	must(t, updates.Wait())

	f.serve(f.fleet("b", 4))
	f.wantBucket(5, 5, 0, 2)
	wantTooMuch(t, f.resize("a", 2))
}

// Somebody else refuses an update that Bursar admitted. Nobody changes the object afterwards.
func TestUpdateRefusedElsewhereFreesItsQuota(t *testing.T) {
	t.Parallel()
	f := newFollowedWorld(t, 5, nil)
	f.mustCreate(f.fleet("a", 1))
	f.wantBucket(5, 1, 4, 1)

	f.refused(func() error { return f.resize("a", 5) })

	f.serve(f.fleet("b", 4))
	f.wantBucket(5, 5, 0, 2)
	wantTooMuch(t, f.resize("a", 2))
}

// Many create objects of one name at once, and one of them succeeds. The quota of the others is free.
func TestCreatesOfOneNameFreeTheirQuota(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 4)
	var creates errgroup.Group
	for range 16 {
		creates.Go(func() error {
			err := admin.Create(w.ctx, w.configMap("a"))
			if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsForbidden(err) && !apierrors.IsTooManyRequests(err) {
				return err
			}
			return nil
		})
	}
	must(t, creates.Wait())

	for _, name := range []string{"b", "c", "d"} {
		eventually(w, func() error { return admin.Create(w.ctx, w.configMap(name)) })
	}
	w.wantBucket(4, 4, 0, 4)
	w.wantExceeded(w.configMap("e"))
}

// A create can fail with the object in storage: the API server could not encode its answer. Bursar does not believe
// the answer, and the object keeps its charge.
func TestFailedAnswerOfSuccessfulCreateFreesNothing(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)

	w.createWithoutAnswer(w.configMap("a"))

	w.wantBucket(1, 1, 0, 1)
	w.wantExceeded(w.configMap("b"))
}

// The same trick must not make objects free of charge under a policy that charges them only once they exist.
func TestFailedAnswerOfSuccessfulCreateIsCharged(t *testing.T) {
	for _, mode := range []quotav1alpha1.EnforcementMode{quotav1alpha1.EnforcementModeWarn, quotav1alpha1.EnforcementModeAudit} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.grant("base", 10)
			w.policy(w.name, inMode(mode))

			for n := range 5 {
				w.createWithoutAnswer(w.configMap(fmt.Sprint("a-", n)))
			}

			w.wantBucket(10, 5, 5, 5)
		})
	}
}

// createWithoutAnswer creates an object in a way that the API server cannot answer.
func (w *world) createWithoutAnswer(object client.Object) {
	w.Helper()
	api, err := kubernetes.NewForConfig(started.Config)
	must(w.T, err)
	err = api.CoreV1().RESTClient().Post().Namespace(w.name).Resource("configmaps").Body(object).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Param("includeObject", "nonsense").
		Do(w.ctx).Error()
	if err == nil {
		w.Fatal("the answer was encoded, want an error")
	}
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	must(w.T, admin.Get(w.ctx, client.ObjectKeyFromObject(object), stored))
}
