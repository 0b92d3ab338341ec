package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

const (
	cumulative = openmcpv1alpha1.ModeCumulative
	maximum    = openmcpv1alpha1.ModeMaximum
	singular   = openmcpv1alpha1.ModeSingular

	base = "base"
)

// increased is a namespace of its own with ResourceQuotas from definitions and increases. Its objects have its name.
type increased struct {
	*testing.T
	// api talks to the server as its administrator.
	api  client.Client
	name string
}

// newIncreased makes a namespace with a unique label.
func newIncreased(t *testing.T) *increased {
	t.Helper()
	t.Parallel()
	w := &increased{T: t, api: admin, name: nameOf(t)}
	w.create(w.newNamespace(w.name))
	return w
}

func (w *increased) labels() map[string]string { return map[string]string{"world": w.name} }

func (w *increased) newNamespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: w.labels()}}
}

// create creates objects and deletes them when the test ends.
func (w *increased) create(objects ...client.Object) {
	w.Helper()
	for _, object := range objects {
		must(w, w.api.Create(w.Context(), object))
		w.cleanUp(object)
	}
}

func (w *increased) cleanUp(object client.Object) {
	w.Cleanup(func() {
		if err := w.api.Delete(context.Background(), object); client.IgnoreNotFound(err) != nil {
			w.Errorf("delete %T %s: %v", object, object.GetName(), err)
		}
	})
}

// said is a resource list in its written form.
func said(l corev1.ResourceList) map[string]string {
	amounts := map[string]string{}
	for name, amount := range l {
		amounts[string(name)] = amount.String()
	}
	return amounts
}

// definition is one for the world's namespaces.
func (w *increased) definition(name string, mode openmcpv1alpha1.QuotaMode, hard ...string) openmcpv1alpha1.QuotaDefinition {
	return openmcpv1alpha1.QuotaDefinition{
		Name: name, Mode: mode, Selector: &metav1.LabelSelector{MatchLabels: w.labels()},
		Template: openmcpv1alpha1.QuotaTemplate{Spec: corev1.ResourceQuotaSpec{Hard: list(hard...)}},
	}
}

// newConfig is a configuration called like the world, and something more.
func (w *increased) newConfig(suffix string, definitions ...openmcpv1alpha1.QuotaDefinition) *openmcpv1alpha1.QuotaServiceConfig {
	return &openmcpv1alpha1.QuotaServiceConfig{ObjectMeta: metav1.ObjectMeta{Name: w.name + suffix}, Spec: openmcpv1alpha1.QuotaServiceConfigSpec{Quotas: definitions}}
}

// config creates a configuration.
func (w *increased) config(definitions ...openmcpv1alpha1.QuotaDefinition) *openmcpv1alpha1.QuotaServiceConfig {
	w.Helper()
	config := w.newConfig("", definitions...)
	w.create(config)
	return config
}

func (w *increased) newIncrease(name string, hard ...string) *openmcpv1alpha1.QuotaIncrease {
	return &openmcpv1alpha1.QuotaIncrease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.name}, Spec: openmcpv1alpha1.QuotaIncreaseSpec{Hard: list(hard...)}}
}

func (w *increased) increase(name string, hard ...string) *openmcpv1alpha1.QuotaIncrease {
	w.Helper()
	object := w.newIncrease(name, hard...)
	w.create(object)
	return object
}

// increases creates those of the document.
func (w *increased) increases() {
	w.Helper()
	w.increase("small", "count/secrets=5")
	w.increase("medium", "count/secrets=50", "count/configmaps=10")
	w.increase("big", "count/secrets=100")
}

func (w *increased) namespace() *corev1.Namespace {
	w.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
	must(w, w.api.Get(w.Context(), client.ObjectKeyFromObject(namespace), namespace))
	return namespace
}

// use sets the namespace's label to the name of an increase, or removes it.
func (w *increased) use(name string) {
	w.Helper()
	change(w, w.namespace(), func(n *corev1.Namespace) {
		if name == "" {
			delete(n.Labels, openmcpv1alpha1.LabelUse)
		} else {
			n.Labels[openmcpv1alpha1.LabelUse] = name
		}
	})
}

// quota reads the world's ResourceQuota of that name.
func (w *increased) quota(name string) (*corev1.ResourceQuota, error) {
	quota := &corev1.ResourceQuota{}
	return quota, w.api.Get(w.Context(), client.ObjectKey{Namespace: w.name, Name: name}, quota)
}

// wantQuota waits until there is a ResourceQuota with exactly these amounts.
func (w *increased) wantQuota(name string, hard ...string) *corev1.ResourceQuota {
	w.Helper()
	var quota *corev1.ResourceQuota
	eventually(w, func() (err error) {
		if quota, err = w.quota(name); err != nil {
			return err
		}
		if diff := cmp.Diff(said(list(hard...)), said(quota.Spec.Hard)); diff != "" {
			return fmt.Errorf("ResourceQuota %s (-want +got):\n%s", name, diff)
		}
		return nil
	})
	return quota
}

func (w *increased) wantNoQuota(name string) {
	w.Helper()
	eventually(w, func() error {
		if _, err := w.quota(name); !apierrors.IsNotFound(err) {
			return fmt.Errorf("there is ResourceQuota %s, or %v", name, err)
		}
		return nil
	})
}

// wantLabels waits until the namespace has the labels of a definition, or none.
func (w *increased) wantLabels(config, definition string, mode openmcpv1alpha1.QuotaMode) {
	w.Helper()
	want := map[string]string{}
	if config != "" {
		want = map[string]string{"quota.openmcp.cloud/base": definition, "quota.openmcp.cloud/mode": string(mode), "quota.openmcp.cloud/managed-by": config}
	}
	eventually(w, func() error {
		got := map[string]string{}
		for key, value := range w.namespace().Labels {
			if strings.HasPrefix(key, "quota.openmcp.cloud/") && key != openmcpv1alpha1.LabelUse {
				got[key] = value
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("labels of the namespace (-want +got):\n%s", diff)
		}
		return nil
	})
}

// wantEffect waits until an increase has that effect, mode and reason, and a message with all of says. It returns the
// message.
func (w *increased) wantEffect(name string, mode openmcpv1alpha1.QuotaMode, effect string, status metav1.ConditionStatus, reason string, says ...string) string {
	w.Helper()
	message := ""
	eventually(w, func() error {
		object, err := w.read(name)
		if err != nil {
			return err
		}
		got := apimeta.FindStatusCondition(object.Status.Conditions, openmcpv1alpha1.ConditionEffective)
		if got == nil || got.Status != status || got.Reason != reason || got.ObservedGeneration != object.Generation || object.Status.ObservedGeneration != object.Generation {
			return fmt.Errorf("the condition of %s is %+v, want %s, %s", name, got, status, reason)
		}
		effectNow, has := object.Annotations["quota.openmcp.cloud/effect"]
		if object.Labels["quota.openmcp.cloud/mode"] != string(mode) || effectNow != effect || has != (mode != "") {
			return fmt.Errorf("%s has labels %v and annotations %v, want mode %s and effect %q", name, object.Labels, object.Annotations, mode, effect)
		}
		message = got.Message
		return lacks(message, says)
	})
	return message
}

func (w *increased) read(name string) (*openmcpv1alpha1.QuotaIncrease, error) {
	object := &openmcpv1alpha1.QuotaIncrease{}
	return object, w.api.Get(w.Context(), client.ObjectKey{Namespace: w.name, Name: name}, object)
}

func (w *increased) wantNoIncrease(name string) {
	w.Helper()
	eventually(w, func() error {
		if _, err := w.read(name); !apierrors.IsNotFound(err) {
			return fmt.Errorf("there is QuotaIncrease %s, or %v", name, err)
		}
		return nil
	})
}

// wantCondition waits until a configuration has a condition, with all of says in its message. It returns the message.
func (w *increased) wantCondition(config *openmcpv1alpha1.QuotaServiceConfig, of string, status metav1.ConditionStatus, reason string, says ...string) string {
	w.Helper()
	message := ""
	eventually(w, func() error {
		if err := w.api.Get(w.Context(), client.ObjectKeyFromObject(config), config); err != nil {
			return err
		}
		got := apimeta.FindStatusCondition(config.Status.Conditions, of)
		if got == nil || got.Status != status || got.Reason != reason || got.ObservedGeneration != config.Generation {
			return fmt.Errorf("condition %s of %s is %+v, want %s, %s", of, config.Name, got, status, reason)
		}
		message = got.Message
		return lacks(message, says)
	})
	return message
}

// wantDefinitions waits until the status shows each definition's number of namespaces, and its readiness.
func (w *increased) wantDefinitions(config *openmcpv1alpha1.QuotaServiceConfig, want ...string) {
	w.Helper()
	eventually(w, func() error {
		if err := w.api.Get(w.Context(), client.ObjectKeyFromObject(config), config); err != nil {
			return err
		}
		var got []string
		for _, each := range config.Status.Quotas {
			reason := ""
			if c := apimeta.FindStatusCondition(each.Conditions, openmcpv1alpha1.ConditionReady); c != nil {
				reason = c.Reason
			}
			got = append(got, fmt.Sprintf("%s %d %s", each.Name, each.Namespaces, reason))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("definitions (-want +got):\n%s", diff)
		}
		return nil
	})
}

// wantEvent waits until the world's namespace has an event about an object of a kind.
func (w *increased) wantEvent(kind, name, reason, note string) {
	w.Helper()
	eventually(w, func() error {
		var events eventsv1.EventList
		if err := w.api.List(w.Context(), &events, client.InNamespace(w.name)); err != nil {
			return err
		}
		var got []string
		for _, event := range events.Items {
			if event.Regarding.Kind == kind && event.Regarding.Name == name && event.Reason == reason && strings.Contains(event.Note, note) {
				return nil
			}
			got = append(got, fmt.Sprintf("%s %s %s: %s", event.Regarding.Kind, event.Regarding.Name, event.Reason, event.Note))
		}
		return fmt.Errorf("no event %s about %s %s with %q among\n%s", reason, kind, name, note, strings.Join(got, "\n"))
	})
}

// lacks returns an error if a message lacks one of says.
func lacks(message string, says []string) error {
	for _, want := range says {
		if !strings.Contains(message, want) {
			return fmt.Errorf("the message is %q, want it to say %q", message, want)
		}
	}
	return nil
}

func (w *increased) wantContains(what, got string, wanted ...string) {
	w.Helper()
	for _, want := range wanted {
		if !strings.Contains(got, want) {
			w.Errorf("%s is %q, want it to say %q", what, got, want)
		}
	}
}
