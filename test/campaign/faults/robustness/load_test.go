package robustness

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/process"
)

// direct marks claims made without a policy.
var direct = client.MatchingLabels{"robustness/direct": "true"}

// load creates and deletes until stop, and remembers the acknowledged objects.
type load struct {
	cancel context.CancelFunc
	group  sync.WaitGroup
	mu     sync.Mutex
	// promised holds acknowledged objects and claims without an attempt to delete them.
	promised map[types.UID]string
	count    int
}

func startLoad(t *testing.T, server *process.Server, round int) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{cancel: cancel, promised: map[types.UID]string{}}
	for n := range creators {
		api := connect(t, server)
		l.group.Go(func() { l.createObjects(ctx, t, api, fmt.Sprintf("r%d-o%d", round, n)) })
	}
	for n := range claimers {
		api := connect(t, server)
		l.group.Go(func() { l.createClaims(ctx, api, fmt.Sprintf("r%d-c%d", round, n)) })
	}
	return l
}

// createObjects creates ConfigMaps, and deletes the oldest whenever it has used up the quota.
func (l *load) createObjects(ctx context.Context, t *testing.T, api client.Client, prefix string) {
	var own []*corev1.ConfigMap
	for n := 0; ctx.Err() == nil; n++ {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", prefix, n), Namespace: space}}
		err := api.Create(ctx, object)
		switch {
		case err == nil:
			own = append(own, object)
			l.promise(object)
		case platform.IsExceeded(err):
			if len(own) > 0 {
				l.withdraw(ctx, api, own[0])
				own = own[1:]
			}
		case apierrors.IsForbidden(err):
			t.Errorf("create: %v", err)
		}
	}
}

// createClaims creates claims, and deletes each after a while, granted or not.
func (l *load) createClaims(ctx context.Context, api client.Client, prefix string) {
	const keep, timeout = 3, 100 * time.Millisecond
	var own []*quotav1alpha1.ResourceClaim
	for n := 0; ctx.Err() == nil; n++ {
		claim := &quotav1alpha1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", prefix, n), Namespace: space, Labels: direct},
			Spec: quotav1alpha1.ResourceClaimSpec{
				ConsumerRef: platform.Consumer("acme"),
				ResourceRef: quotav1alpha1.UnversionedObjectReference{Kind: "ConfigMap", Name: "elsewhere"},
				Requests:    []quotav1alpha1.ResourceRequest{{ResourceType: resourceType, Amount: 1}},
			},
		}
		if api.Create(ctx, claim) != nil {
			continue
		}
		err := wait.PollUntilContextTimeout(ctx, time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
			err := api.Get(ctx, client.ObjectKeyFromObject(claim), claim)
			return err == nil && apimeta.IsStatusConditionTrue(claim.Status.Conditions, quotav1alpha1.ConditionGranted), nil
		})
		if err != nil {
			_ = api.Delete(ctx, claim) // it waits, or the server is gone
			continue
		}
		l.promise(claim)
		if own = append(own, claim); len(own) > keep {
			l.withdraw(ctx, api, own[0])
			own = own[1:]
		}
	}
}

func (l *load) promise(object client.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.promised[object.GetUID()] = object.GetName()
	l.count++
}

// withdraw deletes an object, and takes it from promised before, because the outcome of the deletion may stay unknown.
func (l *load) withdraw(ctx context.Context, api client.Client, object client.Object) {
	l.mu.Lock()
	delete(l.promised, object.GetUID())
	l.mu.Unlock()
	_ = api.Delete(ctx, object)
}

// waitBusy waits until the load has met the limits many times.
func (l *load) waitBusy(t *testing.T) {
	t.Helper()
	const enough = 150
	eventually(t, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.count < enough {
			return fmt.Errorf("%d objects were created", l.count)
		}
		return nil
	})
}

func (l *load) stop() map[types.UID]string {
	l.cancel()
	l.group.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.promised)
}
