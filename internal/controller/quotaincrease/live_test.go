package quotaincrease

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// behind returns a world with a cache behind the API server: cached is the content of the cache, and live the content
// of the API server, replacing cached objects of the same name. The namespace may be among them.
func behind(t *testing.T, cached, live []client.Object) *world {
	t.Helper()
	w, current := newWorld(t, cached...), newWorld(t)
	for _, object := range append(cached, live...) {
		object := object.DeepCopyObject().(client.Object)
		object.SetResourceVersion("")
		if err := client.IgnoreNotFound(current.Client.Delete(t.Context(), object)); err != nil {
			t.Fatal(err)
		}
		if object.SetResourceVersion(""); object.GetAnnotations()["gone"] != "" {
			continue
		}
		if err := current.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	w.Live = current.Client
	return w
}

func namespace(labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team, UID: "team", Labels: labels}}
}

// changed is an object with a difference on the API server.
func changed[T client.Object](object T, how func(T)) []client.Object {
	object = object.DeepCopyObject().(T)
	how(object)
	return []client.Object{object}
}

// vanished is an object no longer on the API server.
func vanished[T client.Object](object T) []client.Object {
	return changed(object, func(o T) { o.SetAnnotations(map[string]string{"gone": "yes"}) })
}

// Before the deletion of an increase, the API server confirms the state in the cache.
func TestNothingIsDeletedByOldNews(t *testing.T) {
	config := platform(openmcpv1alpha1.ModeMaximum, "count/secrets=10")
	config.Spec.Quotas[0].DeleteIneffectiveQuotas = true
	small, big := quotaIncrease("small", "count/secrets=5"), quotaIncrease("big", "count/secrets=100")
	tests := map[string]struct {
		reason  string
		live    []client.Object
		deletes bool
	}{
		"Same":            {"all is as it was", nil, true},
		"Definition":      {"the definition was changed", changed(config, func(c *openmcpv1alpha1.QuotaServiceConfig) { c.Generation = 2 }), false},
		"Anew":            {"the configuration is another one", changed(config, func(c *openmcpv1alpha1.QuotaServiceConfig) { c.UID = "2" }), false},
		"ConfigIsGone":    {"the configuration is gone", vanished(config), false},
		"Increase":        {"an increase was changed", changed(big, func(q *openmcpv1alpha1.QuotaIncrease) { q.Generation = 2 }), false},
		"IncreaseAnew":    {"an increase is another one", changed(big, func(q *openmcpv1alpha1.QuotaIncrease) { q.UID = "2" }), false},
		"IncreaseIsGone":  {"an increase is gone", vanished(big), false},
		"IncreaseIsThere": {"an increase has come", []client.Object{quotaIncrease("new", "count/secrets=1")}, false},
		"Labels":          {"another definition may be for the namespace", []client.Object{namespace(map[string]string{"tier": "gold"})}, false},
		"OwnLabels":       {"labels that Bursar gives do not matter", []client.Object{namespace(map[string]string{openmcpv1alpha1.LabelBase: "base"})}, true},
		"Ignored": {"the namespace is to be left alone", changed(namespace(nil), func(n *corev1.Namespace) {
			n.Annotations = map[string]string{openmcpv1alpha1.AnnotationOperation: openmcpv1alpha1.OperationIgnore}
		}), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := behind(t, []client.Object{config.DeepCopy(), small.DeepCopy(), big.DeepCopy()}, tt.live)
			result := w.settled()
			err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(small), small.DeepCopy())
			if apierrors.IsNotFound(err) != tt.deletes {
				t.Errorf("%s: the superfluous increase: %v", tt.reason, err)
			}
			if isAgain := result.RequeueAfter == outdatedDelay; isAgain == tt.deletes {
				t.Errorf("%s: it is looked at again after %s", tt.reason, result.RequeueAfter)
			}
		})
	}
}

// Before a namespace loses its quota, the API server confirms that no definition matches.
func TestNothingIsLiftedByOldNews(t *testing.T) {
	held := namespace(map[string]string{"tier": "gold", openmcpv1alpha1.LabelManagedBy: "platform", openmcpv1alpha1.LabelBase: "base"})
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "base", Namespace: team, Labels: map[string]string{
		openmcpv1alpha1.LabelManagedBy: "platform", openmcpv1alpha1.LabelDefinition: "base",
	}}}
	silver := platform(openmcpv1alpha1.ModeMaximum)
	silver.Spec.Quotas[0].Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "silver"}}
	forAll := func(c *openmcpv1alpha1.QuotaServiceConfig) { c.Generation, c.Spec.Quotas[0].Selector = 2, nil }
	tests := map[string]struct {
		reason string
		live   []client.Object
		lifts  bool
	}{
		"Same":            {"there is none", nil, true},
		"Definition":      {"the definition is for all now", changed(silver, forAll), false},
		"Other":           {"another configuration has one", changed(silver, func(c *openmcpv1alpha1.QuotaServiceConfig) { forAll(c); c.Name, c.UID = "other", "2" }), false},
		"Labels":          {"it has other labels now, whatever follows from that", changed(held, func(n *corev1.Namespace) { n.Labels["tier"] = "bronze" }), false},
		"LabelsFit":       {"its labels are those of a definition now", changed(held, func(n *corev1.Namespace) { n.Labels["tier"] = "silver" }), false},
		"NamespaceIsGone": {"it is gone", vanished(held), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := behind(t, []client.Object{silver.DeepCopy(), quota.DeepCopy()}, append([]client.Object{held.DeepCopy()}, tt.live...))
			if err := w.Client.Update(t.Context(), held.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			w.settled()
			if isLifted := w.hard("base") == "none"; isLifted != tt.lifts {
				t.Errorf("%s: the ResourceQuota is removed: %t, want %t", tt.reason, isLifted, tt.lifts)
			}
			live := w.namespaceLabels()
			if hasLabel := live[openmcpv1alpha1.LabelManagedBy] != ""; hasLabel == tt.lifts {
				t.Errorf("%s: the namespace has the labels %v", tt.reason, live)
			}
		})
	}
}

func (w *world) namespaceLabels() map[string]string {
	w.Helper()
	namespace := &corev1.Namespace{}
	if err := w.Client.Get(w.Context(), client.ObjectKey{Name: team}, namespace); err != nil {
		w.Fatal(err)
	}
	return namespace.Labels
}

// The reconciler removes a ResourceQuota only if its own labels mark it as generated, or if it belongs to the
// namespace.
func TestIsOurs(t *testing.T) {
	ours := map[string]string{openmcpv1alpha1.LabelManagedBy: "platform", openmcpv1alpha1.LabelDefinition: "base"}
	controlledBy := func(kind string, uid types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: team, UID: uid, Controller: new(true)}}
	}
	tests := map[string]struct {
		reason string
		labels map[string]string
		owners []metav1.OwnerReference
		want   bool
	}{
		"Nobodys":       {"somebody made it", nil, nil, false},
		"Labelled":      {"its labels say so", ours, nil, true},
		"OneLabel":      {"one label is not enough", map[string]string{openmcpv1alpha1.LabelDefinition: "base"}, nil, false},
		"OtherName":     {"it is a copy of another", map[string]string{openmcpv1alpha1.LabelManagedBy: "platform", openmcpv1alpha1.LabelDefinition: "gold"}, nil, false},
		"Owned":         {"it belongs to the namespace", nil, controlledBy("Namespace", "team"), true},
		"OtherOwner":    {"it belongs to something else", nil, controlledBy("Deployment", "team"), false},
		"FormerOwner":   {"it belongs to a former namespace", nil, controlledBy("Namespace", "former"), false},
		"NotController": {"it is only owned", nil, []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", UID: "team"}}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "base", Labels: tt.labels, OwnerReferences: tt.owners}}
			of := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: team, UID: "team", Labels: map[string]string{
				openmcpv1alpha1.LabelManagedBy: "platform", openmcpv1alpha1.LabelBase: "base", // these do not matter
			}}}
			if got := isOurs(quota, of); got != tt.want {
				t.Errorf("%s: got %t", tt.reason, got)
			}
		})
	}
}

// A namespace just taken by another operator keeps its label.
func TestLabelOfAnotherOperatorStays(t *testing.T) {
	w := newWorld(t)
	cached := newNamespace()
	if err := w.Get(t.Context(), client.ObjectKey{Name: team}, cached); err != nil {
		t.Fatal(err)
	}
	if err := w.Client.Update(t.Context(), namespace(map[string]string{openmcpv1alpha1.LabelManagedBy: "other"})); err != nil {
		t.Fatal(err)
	}
	config := platform(openmcpv1alpha1.ModeMaximum, "count/secrets=10")
	err := w.label(t.Context(), cached, &match{config: config, definition: &config.Spec.Quotas[0]})
	if got := w.namespaceLabels()[openmcpv1alpha1.LabelManagedBy]; !apierrors.IsConflict(err) || got != "other" {
		t.Errorf("got %v, and the label %q", err, got)
	}
}
