package catalog

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// live has registrations on the API server.
type live struct {
	client.Reader
	registrations []*quotav1alpha1.ResourceRegistration
}

func (l live) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	for _, registration := range l.registrations {
		list := into.(*quotav1alpha1.ResourceRegistrationList)
		list.Items = append(list.Items, *registration)
	}
	return nil
}

// A change is not rejected for a registration that comes with it.
func TestUndecided(t *testing.T) {
	registration := func(change func(*quotav1alpha1.ResourceRegistration)) *quotav1alpha1.ResourceRegistration {
		r := registrationAt("cpus", 1, metav1.ConditionTrue)
		r.CreationTimestamp = metav1.Now()
		change(r)
		return r
	}
	inactive := func(reason string) func(*quotav1alpha1.ResourceRegistration) {
		return func(r *quotav1alpha1.ResourceRegistration) {
			r.Status.Conditions[0].Status, r.Status.Conditions[0].Reason = metav1.ConditionFalse, reason
		}
	}
	pending := inactive(quotav1alpha1.ReasonRegistrationPending)
	old := func(r *quotav1alpha1.ResourceRegistration) {
		pending(r)
		r.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
	}
	other := func(r *quotav1alpha1.ResourceRegistration) { pending(r); r.Spec.ResourceType = "other" }
	second := func(r *quotav1alpha1.ResourceRegistration) { pending(r); r.Name = "again" }
	same := func(*quotav1alpha1.ResourceRegistration) {}
	type registrations = []*quotav1alpha1.ResourceRegistration
	for name, tt := range map[string]struct {
		reason    string
		live      registrations
		isAllowed bool // once the type is registered
		want      bool
	}{
		"pending":          {"it is decided soon", registrations{registration(pending)}, true, true},
		"active":           {"the catalog lags", registrations{registration(same)}, true, true},
		"pending for long": {"nobody decides it", registrations{registration(old)}, true, false},
		"rejected":         {"it is decided", registrations{registration(inactive(quotav1alpha1.ReasonValidationFailed))}, true, false},
		"active, unfit":    {"it does not allow the change", registrations{registration(same)}, false, false},
		"duplicate":        {"it changes nothing", registrations{registration(same), registration(second)}, false, false},
		"other":            {"the change does not need it", registrations{registration(other)}, true, false},
		"none":             {"there may never be one", nil, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Undecided(t.Context(), live{registrations: tt.live}, []string{"t"}, func(current *Catalog) error {
				if tt.isAllowed && current.Registration("t") != nil {
					return nil
				}
				return errors.New("not allowed")
			})
			if err != nil || got != tt.want {
				t.Errorf("%s: undecided is %t, %v, want %t", tt.reason, got, err, tt.want)
			}
		})
	}
}
