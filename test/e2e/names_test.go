package e2e

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Denials and waiting claims name a resource type as its registration does for people.
func TestNamesForPeople(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 2)
	w.nameForPeople("Settings", "ConfigMaps of an Organization", "settings.example.com")
	w.mustCreate(w.configMap("a"))
	w.mustCreate(w.configMap("b"))
	want := "exceeded quota: Settings (" + w.resourceType() + ") quota of Organization " + w.name + ", requested: 1 map, used: 2, limited: 2. "
	const advice = "or ask an administrator of settings.example.com to grant it more. "
	if got := w.wantExceeded(w.configMap("c")); !strings.Contains(got, want) || !strings.Contains(got, advice) {
		t.Errorf("the denial is\n%s\nwant %q and %q", got, want, advice)
	}
	waits := w.claim("waits", 1)
	w.mustCreate(waits)
	if got := w.waitCondition(waits, quotav1alpha1.ConditionGranted, metav1.ConditionFalse).Message; !strings.HasPrefix(got, want) || !strings.Contains(got, advice) {
		t.Errorf("the claim waits because\n%s\nwant %q and %q", got, want, advice)
	}

	// Names with control characters change nothing else in the message.
	w.nameForPeople("Settings\x1b[31m\n\tquota of Team red, ", "", "")
	want = "exceeded quota: ConfigMap quota of Organization " + w.name + ", requested: 1 map, used: 2, limited: 2. "
	if got := w.wantExceeded(w.configMap("c")); !strings.Contains(got, want) {
		t.Errorf("the denial is\n%s\nwant %q", got, want)
	}
}

// nameForPeople names the resource type of the world for people, and waits until Bursar knows the names.
func (w *world) nameForPeople(name, description, owner string) {
	w.Helper()
	registration := &quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: registrationName(w.resourceType())}}
	change(w.T, registration, func(r *quotav1alpha1.ResourceRegistration) {
		r.Annotations = map[string]string{quotav1alpha1.AnnotationDisplayName: name, quotav1alpha1.AnnotationDescription: description}
		r.Labels = map[string]string{quotav1alpha1.LabelOwner: owner}
	})
	w.waitEffective("with the names", func(s *quotav1alpha1.EffectiveResourceGrantStatus) bool {
		return s.Display != nil && s.Display.Name == registration.DisplayName() && s.Display.Description == description && s.Display.Owner == owner
	})
}

// waitShown waits until the quota of the world appears as it is.
func (w *world) waitShown(limit, used int64) {
	w.Helper()
	w.waitEffective(fmt.Sprintf("as %d of %d", used, limit), func(s *quotav1alpha1.EffectiveResourceGrantStatus) bool {
		return s.TotalLimit == limit && s.TotalAllocated == used
	})
}

// waitEffective waits until the quota of the world has a status.
func (w *world) waitEffective(what string, is func(*quotav1alpha1.EffectiveResourceGrantStatus) bool) {
	w.Helper()
	eventually(w, func() error {
		var list quotav1alpha1.EffectiveResourceGrantList
		if err := admin.List(w.ctx, &list); err != nil {
			return err
		}
		for i := range list.Items {
			if list.Items[i].Spec.ResourceType == w.resourceType() && is(&list.Items[i].Status) {
				return nil
			}
		}
		return fmt.Errorf("the quota of %s is not shown %s", w.name, what)
	})
}
