package request

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/usage"
)

// States are the possible states of a request.
var States = []string{
	quotav1alpha1.ReasonPending, quotav1alpha1.ReasonApproved, quotav1alpha1.ReasonPartiallyApproved,
	quotav1alpha1.ReasonDenied, quotav1alpha1.ReasonWithdrawn, quotav1alpha1.ReasonExpired,
}

// Filter selects requests.
type Filter struct {
	// Namespace is their namespace. If it is empty, they are those of all namespaces.
	Namespace string
	// State is their state. If it is empty, they are undecided.
	State string
	// IsAll selects those in every state.
	IsAll bool
	// ReadMax bounds the requests read before the selection. 0: all. If there are more, the list has a continue token.
	ReadMax int64
	// Selector selects them by their labels. It may be nil for all.
	Selector labels.Selector
}

// List returns the selected requests, the oldest first.
func List(ctx context.Context, api client.Client, f Filter) (*quotav1alpha1.QuotaRequestList, error) {
	list := &quotav1alpha1.QuotaRequestList{}
	if err := api.List(ctx, list, &client.ListOptions{Namespace: f.Namespace, LabelSelector: f.Selector, Limit: f.ReadMax}); err != nil {
		return nil, failure("list the QuotaRequests"+f.place(), err)
	}
	list.Items = slices.DeleteFunc(list.Items, func(r quotav1alpha1.QuotaRequest) bool { return !f.selects(&r) })
	slices.SortFunc(list.Items, func(a, b quotav1alpha1.QuotaRequest) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return list, nil
}

func (f *Filter) selects(request *quotav1alpha1.QuotaRequest) bool {
	switch state := stateOf(request); {
	case f.IsAll:
		return true
	case f.State != "":
		return state == f.State
	default:
		return state == "" || state == quotav1alpha1.ReasonPending
	}
}

// place names the namespace, for people.
func (f *Filter) place() string {
	if f.Namespace == "" {
		return " of all namespaces"
	}
	return " in namespace " + f.Namespace
}

// EmptyText explains an empty selection, and suggests the next step.
func (f *Filter) EmptyText() string {
	const ask = "To ask for quota: bursar request TYPE=AMOUNT --for KIND/NAME --reason TEXT."
	switch {
	case f.IsAll:
		return fmt.Sprintf("There are no quota requests%s. %s", f.place(), ask)
	case f.State != "":
		return fmt.Sprintf("No quota request%s is %s. For other states: bursar requests --all.", f.place(), f.State)
	default:
		return fmt.Sprintf("No quota request%s waits for a decision. For decided ones: bursar requests --all. %s", f.place(), ask)
	}
}

// PrintList writes requests as a table or in a format. The table begins with the namespace if it is withNamespace. Ages
// are at now.
func PrintList(w io.Writer, list *quotav1alpha1.QuotaRequestList, format usage.Format, withNamespace bool, now time.Time) error {
	if format == usage.FormatJSON || format == usage.FormatYAML {
		list = list.DeepCopy()
		list.SetGroupVersionKind(quotav1alpha1.GroupVersion.WithKind("QuotaRequestList"))
		if list.Items == nil {
			list.Items = []quotav1alpha1.QuotaRequest{}
		}
		for i := range list.Items {
			list.Items[i].SetGroupVersionKind(quotav1alpha1.GroupVersion.WithKind("QuotaRequest"))
			list.Items[i].ManagedFields = nil
		}
		return usage.Encode(w, list, format)
	}
	rows := [][]string{{"NAME", "STATE", "CONSUMER", "ASKS", "REQUESTER", "AGE", "MESSAGE"}}
	for i := range list.Items {
		rows = append(rows, rowOf(&list.Items[i], now))
	}
	if format == usage.FormatWide {
		rows[0] = append(rows[0], "UNTIL", "REASON")
		for i := range list.Items {
			spec, until := &list.Items[i].Spec, "-"
			if spec.Until != nil {
				until = inUTC(spec.Until)
			}
			rows[i+1] = append(rows[i+1], until, cmp.Or(usage.OneLine(spec.Reason), "-"))
		}
	}
	if withNamespace {
		rows[0] = slices.Insert(rows[0], 0, "NAMESPACE")
		for i := range list.Items {
			rows[i+1] = slices.Insert(rows[i+1], 0, list.Items[i].Namespace)
		}
	}
	return usage.PrintTable(w, rows)
}

func rowOf(request *quotav1alpha1.QuotaRequest, now time.Time) []string {
	consumer, requester := request.Spec.ConsumerRef, "-"
	if by := request.Spec.Requester; by != nil {
		requester = usage.OneLine(by.Username)
	}
	return []string{
		request.Name, cmp.Or(stateOf(request), "-"), consumer.Kind + "/" + consumer.Name, asks(request), requester,
		duration.HumanDuration(now.Sub(request.CreationTimestamp.Time)), messageOf(request),
	}
}
