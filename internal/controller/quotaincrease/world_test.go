package quotaincrease

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/kube/events"
)

// world is a reconciler of one namespace, team, on a fake API server with failures.
type world struct {
	*testing.T
	*Reconciler
	client.Client
	// reject returns the error of a write, or nil.
	reject func(verb string, object client.Object) error
	// writes are those of ResourceQuotas, in order, including rejected ones.
	writes []string
	// events are the emitted events.
	events []string
}

const team = "team"

// newWorld makes a world with these objects, beside the namespace. Every definition is usable.
func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, openmcpv1alpha1.AddToScheme, quotav1alpha1.AddToScheme} {
		if err := add(types); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{T: t, reject: func(string, client.Object) error { return nil }}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team, UID: "team"}}
	w.Client = fake.NewClientBuilder().WithScheme(types).WithObjects(append(objects, namespace)...).
		WithStatusSubresource(&openmcpv1alpha1.QuotaIncrease{}, &openmcpv1alpha1.QuotaServiceConfig{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
				verb := "create"
				if slices.Contains(options, client.CreateOption(client.DryRunAll)) {
					verb = "try"
				}
				return w.write(verb, object, func() error { return c.Create(ctx, object, options...) })
			},
			Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
				return w.write("update", object, func() error { return c.Update(ctx, object, options...) })
			},
			Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
				return w.write("delete", object, func() error { return c.Delete(ctx, object, options...) })
			},
		}).Build()
	w.Reconciler = &Reconciler{
		Client: w.Client, Live: w.Client, SystemNamespace: "bursar-system", Events: events.NewRecorder(w),
		Definitions: &Definitions{Client: w.Client, Specs: &apiServer{}, onChange: func(context.Context) {}},
	}
	w.outcomes.onChange = func(string) {}
	return w
}

func (w *world) write(verb string, object client.Object, do func() error) error {
	if quota, is := object.(*corev1.ResourceQuota); is {
		w.writes = append(w.writes, fmt.Sprintf("%s %s", verb, quota.Name))
	}
	if err := w.reject(verb, object); err != nil {
		return err
	}
	return do()
}

// Eventf makes a world an event recorder.
func (w *world) Eventf(_, _ runtime.Object, _, reason, _, note string, args ...any) {
	w.events = append(w.events, reason+": "+fmt.Sprintf(note, args...))
}

// reconcile validates every configuration, and reconciles the namespace.
func (w *world) reconcile() (reconcile.Result, error) {
	w.Helper()
	var configs openmcpv1alpha1.QuotaServiceConfigList
	if err := w.List(w.Context(), &configs); err != nil {
		w.Fatal(err)
	}
	for i := range configs.Items {
		w.Definitions.validate(w.Context(), &configs.Items[i])
	}
	w.writes = nil
	return w.Reconcile(w.Context(), requestFor(team)[0])
}

// settled brings the namespace in line, and fails the test on an error.
func (w *world) settled() reconcile.Result {
	w.Helper()
	result, err := w.reconcile()
	if err != nil {
		w.Fatal(err)
	}
	return result
}

// hard returns the limits of a ResourceQuota, or none if there is no ResourceQuota.
func (w *world) hard(name string) string {
	w.Helper()
	quota := &corev1.ResourceQuota{}
	err := w.Get(w.Context(), client.ObjectKey{Namespace: team, Name: name}, quota)
	if apierrors.IsNotFound(err) {
		return "none"
	} else if err != nil {
		w.Fatal(err)
	}
	var said []string
	for name, amount := range quota.Spec.Hard {
		said = append(said, fmt.Sprintf("%s=%s", name, amount.String()))
	}
	slices.Sort(said)
	return strings.Join(said, " ")
}

func (w *world) wantHard(reason, name, want string) {
	w.Helper()
	if got := w.hard(name); got != want {
		w.Errorf("%s: ResourceQuota %s is %s, want %s", reason, name, got, want)
	}
}

func amounts(of ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for _, each := range of {
		name, amount, _ := strings.Cut(each, "=")
		l[corev1.ResourceName(name)] = resource.MustParse(amount)
	}
	return l
}

// platform is a configuration with the definition base for all.
func platform(mode openmcpv1alpha1.QuotaMode, hard ...string) *openmcpv1alpha1.QuotaServiceConfig {
	c := validatedConfig("base")
	c.Spec.Quotas[0].Mode, c.Spec.Quotas[0].Template.Spec.Hard = mode, amounts(hard...)
	return c
}

func quotaIncrease(name string, hard ...string) *openmcpv1alpha1.QuotaIncrease {
	return &openmcpv1alpha1.QuotaIncrease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: team, UID: "uid-of-" + "increase"}, Spec: openmcpv1alpha1.QuotaIncreaseSpec{Hard: amounts(hard...)}}
}
