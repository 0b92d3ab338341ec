package administrator

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/status"
	"github.com/bursar/bursar/internal/console/web"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/internal/usage"
)

// healthView is the page about the health of Bursar.
type healthView struct {
	Checks []checkView
	// Failed and Unknown are the numbers of checks that failed, and that could not run.
	Failed, Unknown int
	// BrokenGlass are the requests past enforcement, the latest first.
	BrokenGlass []glassView
	// Missing explains why the log is not whole.
	Missing string
	Group   string
}

type checkView struct {
	status.Check
	// IsBad means that it failed, and IsNear that somebody should look at it, or that it could not run.
	IsBad, IsNear bool
}

// glassView is a request past enforcement.
type glassView struct {
	At      time.Time
	Object  string
	Message string
	// Count is how often it happened.
	Count int32
}

func (a Area) health(r *web.Request) (web.Answer, error) {
	if !r.May(listPolicies) {
		return closed("Health", "You may not see the health of Bursar: it needs the right to list the policies (claimcreationpolicies). "+
			"Ask an administrator of the platform if something does not work."), nil
	}
	report, err := status.Read(r.Context(), r.Session.Config, a.SystemNamespace, naming.CertificateSecret)
	if err != nil {
		return nil, &web.StatusError{Status: http.StatusBadGateway, Message: "The API server does not answer: " + err.Error() + "."}
	}
	view := &healthView{Failed: report.Failed(), Group: quotav1alpha1.BreakGlassGroup}
	for _, check := range report {
		if check.State == status.Unknown {
			view.Unknown++
		}
		view.Checks = append(view.Checks, checkView{Check: check, IsBad: check.State == status.Failed, IsNear: check.State == status.Warning || check.State == status.Unknown})
	}
	if err := view.readBrokenGlass(r); err != nil {
		return nil, err
	}
	return web.Page{
		Template: "administrator-health", Title: "Health", Data: view,
		Command: "bursar status\nkubectl events -A --types=Warning | grep " + quotav1alpha1.EventBrokenGlass,
	}, nil
}

// readBrokenGlass adds the events about requests past enforcement.
func (v *healthView) readBrokenGlass(r *web.Request) error {
	var events corev1.EventList
	err := r.API().List(r.Context(), &events, client.MatchingFields{"reason": quotav1alpha1.EventBrokenGlass}, client.Limit(listMax))
	if usage.IsOutOfReach(err) {
		v.Missing = "You may not list the events of all namespaces, and Bursar records each use there. " +
			"A role such as view or bursar-quota-approver, bound in the cluster, permits it."
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the events: %w", err)
	}
	if events.Continue != "" {
		v.Missing = fmt.Sprintf("There are more than %d; the others are left out.", listMax)
	}
	for i := range events.Items {
		event := &events.Items[i]
		about := event.InvolvedObject
		view := glassView{At: timeOf(event), Object: about.Kind + " " + about.Name, Message: event.Message, Count: max(event.Count, 1)}
		if about.Namespace != "" {
			view.Object = about.Kind + " " + about.Namespace + "/" + about.Name
		}
		if event.Series != nil {
			view.Count = event.Series.Count
		}
		v.BrokenGlass = append(v.BrokenGlass, view)
	}
	slices.SortStableFunc(v.BrokenGlass, func(a, b glassView) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Object, b.Object)) })
	return nil
}

// timeOf returns the time of an event's latest occurrence. The API of the event's writer decides which field has it.
func timeOf(event *corev1.Event) time.Time {
	switch {
	case event.Series != nil && !event.Series.LastObservedTime.IsZero():
		return event.Series.LastObservedTime.Time
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp.Time
	case !event.EventTime.IsZero():
		return event.EventTime.Time
	default:
		return event.CreationTimestamp.Time
	}
}
