package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/operator"
	"github.com/bursar/bursar/internal/standalone/apiserver"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/platform"
)

// stoppable is a world on an API server of its own, with an operator to stop and start.
type stoppable struct {
	*world
	plane *apiserver.ControlPlane
}

func newStoppable(t *testing.T) *stoppable {
	t.Helper()
	return &stoppable{&world{T: t, ctx: t.Context(), name: "shop"}, startPlane(t)}
}

// run runs the operator until the caller calls stop, and returns once the operator enforces quota.
func (s *stoppable) run() (stop func()) {
	s.Helper()
	o, err := operator.New(operator.Options{
		Config: s.plane.Config(), Username: apiserver.OperatorUser, InstallCRDs: true, Log: logr.Discard(),
	})
	must(s.T, err)
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	eventually(s, o.Ready)
	return func() {
		cancel()
		must(s.T, await.End(func() error { return <-done }))
	}
}

// client talks to the API server as somebody else.
func (s *stoppable) client(change func(*rest.Config)) client.Client {
	s.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.plane.AdminKubeconfigPath())
	must(s.T, err)
	change(config)
	api, err := client.New(config, client.Options{Scheme: admin.Scheme()})
	must(s.T, err)
	return api
}

// protect charges the ConfigMaps of the world, with a limit of one.
func (s *stoppable) protect(api client.Client) {
	s.Helper()
	must(s.T, platform.Install(s.ctx, api))
	grant := &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Name: "base", Namespace: s.name}, Spec: quotav1alpha1.ResourceGrantSpec{
		ConsumerRef: s.consumer(),
		Allowances:  []quotav1alpha1.Allowance{{ResourceType: s.resourceType(), Buckets: []quotav1alpha1.Bucket{{Amount: 1}}}},
	}}
	policy := s.newPolicy(s.name)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.name}}
	for _, object := range []client.Object{namespace, s.registration(s.resourceType()), grant, policy} {
		must(s.T, api.Create(s.ctx, object))
	}
	for object, condition := range map[client.Object]string{grant: quotav1alpha1.ConditionActive, policy: quotav1alpha1.ConditionReady} {
		eventually(s, func() error {
			if err := api.Get(s.ctx, client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			if conditions := conditionsOf(object); !apimeta.IsStatusConditionTrue(conditions, condition) {
				return fmt.Errorf("%T is not %s: %+v", object, condition, conditions)
			}
			return nil
		})
	}
}

// While Bursar is down, only members of the break-glass group get past enforcement. Bursar charges their objects once
// it is back.
func TestBreakGlassWhileBursarIsDown(t *testing.T) {
	t.Parallel()
	s := newStoppable(t)
	stop := s.run()
	jane, breaker := s.client(as("jane")), s.client(as("jane", quotav1alpha1.BreakGlassGroup))
	s.protect(jane)
	must(t, jane.Create(s.ctx, s.configMap("a")))
	eventually(s, func() error {
		policy := &quotav1alpha1.ClaimCreationPolicy{}
		must(t, jane.Get(s.ctx, client.ObjectKey{Name: s.name}, policy))
		if a := policy.Status.Adoption; a == nil || a.State != quotav1alpha1.AdoptionComplete {
			return fmt.Errorf("adoption is %+v, want all objects to have been looked at", a)
		}
		return nil
	})
	stop()
	err := jane.Create(s.ctx, s.configMap("b"))
	if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "failed calling webhook") {
		t.Errorf("create while Bursar is down: %v, want it to be refused since the webhook cannot be called", err)
	}
	must(t, breaker.Create(s.ctx, s.configMap("b")))

	stop = s.run()
	defer stop()
	eventually(s, func() error {
		var list quotav1alpha1.AllowanceBucketList
		if err := jane.List(s.ctx, &list); err != nil {
			return err
		}
		for i := range list.Items {
			if list.Items[i].Status.Limit == 1 && list.Items[i].Status.Allocated == 2 {
				return nil
			}
		}
		return fmt.Errorf("no bucket shows 2 in use of 1: %+v", list.Items)
	})
}
