// Package extend moves the end of a grant to a later time. It writes with the permissions of its user. Only commands
// import it.
package extend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/usage"
)

// Options choose the end to move, and its new time.
type Options struct {
	// Grant is the ResourceGrant.
	Grant client.ObjectKey
	// ResourceType limits the change to allowances of the type with an end of their own. If it is empty, the end of the
	// whole grant moves, or if it has none, those of its allowances.
	ResourceType string
	// Until is the new end. If it is zero, Run adds By to the present end, or to now if that end has passed.
	Until time.Time
	By    time.Duration
}

// Extended is a grant with a later end.
type Extended struct {
	// Grant is the ResourceGrant after the change.
	Grant *quotav1alpha1.ResourceGrant
	// Text explains the new ends, a sentence for each.
	Text string
}

// Print writes the sentences, or the grant in a format.
func (e *Extended) Print(w io.Writer, format usage.Format) error {
	if format == "" {
		_, err := io.WriteString(w, e.Text)
		return err
	}
	grant := e.Grant.DeepCopy()
	grant.SetGroupVersionKind(quotav1alpha1.GroupVersion.WithKind("ResourceGrant"))
	grant.ManagedFields = nil
	return usage.Encode(w, grant, format)
}

// Run moves all ends earlier than the new one, and returns the grant. It fails if none is earlier.
func Run(ctx context.Context, api client.Client, o Options) (*Extended, error) {
	var e Extended
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		grant := &quotav1alpha1.ResourceGrant{}
		if err := api.Get(ctx, o.Grant, grant); err != nil {
			if apierrors.IsNotFound(err) {
				return fmt.Errorf("there is no ResourceGrant %s in namespace %s", o.Grant.Name, o.Grant.Namespace)
			}
			return fmt.Errorf("read ResourceGrant %s: %w", o.Grant, err)
		}
		before := grant.DeepCopy()
		var err error
		if e.Text, err = o.move(grant); err != nil {
			return err
		}
		// The version keeps the change of somebody else in between.
		e.Grant = grant
		return api.Patch(ctx, grant, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
	return &e, err
}

// move moves the ends in a grant.
func (o *Options) move(grant *quotav1alpha1.ResourceGrant) (string, error) {
	if grant.Labels[quotav1alpha1.LabelPolicy] != "" {
		return "", fmt.Errorf("a GrantCreationPolicy made ResourceGrant %s, and would undo the change: change the policy", o.Grant)
	}
	ends := endsOf(grant, o.ResourceType)
	switch {
	case len(ends) == 0 && o.ResourceType != "":
		return "", fmt.Errorf("ResourceGrant %s has no allowance of %s with an end of its own", o.Grant, o.ResourceType)
	case len(ends) == 0:
		return "", fmt.Errorf("ResourceGrant %s has no end", o.Grant)
	}
	var text strings.Builder
	for _, e := range ends {
		later := o.later(e.at.Time)
		if !later.After(e.at.Time) {
			continue
		}
		e.at.Time = later
		fmt.Fprintf(&text, "%s ends at %s.\n", e.what, inUTC(later))
	}
	if text.Len() == 0 {
		return "", fmt.Errorf("%s ends at %s, not before the new end: to move an end to an earlier time, edit the grant", ends[0].what, inUTC(ends[0].at.Time))
	}
	if end := grant.Spec.NotAfter; o.ResourceType != "" && end != nil {
		fmt.Fprintf(&text, "The whole grant ends at %s.\n", inUTC(end.Time))
	}
	return text.String(), nil
}

// end is one of the ends of a grant.
type end struct {
	what string
	at   *metav1.Time
}

func endsOf(grant *quotav1alpha1.ResourceGrant, resourceType string) []end {
	name := fmt.Sprintf("ResourceGrant %s/%s", grant.Namespace, grant.Name)
	if resourceType == "" && grant.Spec.NotAfter != nil {
		return []end{{name, grant.Spec.NotAfter}}
	}
	var ends []end
	for i := range grant.Spec.Allowances {
		a := &grant.Spec.Allowances[i]
		if a.NotAfter != nil && (resourceType == "" || a.ResourceType == resourceType) {
			ends = append(ends, end{fmt.Sprintf("Allowance %d of %s, %s,", i+1, name, a.ResourceType), a.NotAfter})
		}
	}
	return ends
}

func (o *Options) later(present time.Time) time.Time {
	if !o.Until.IsZero() {
		return o.Until
	}
	from := present
	if now := time.Now(); from.Before(now) {
		from = now
	}
	return from.Add(o.By).Truncate(time.Second)
}

// Check returns an error unless there is a new end.
func (o *Options) Check() error {
	switch {
	case o.Until.IsZero() == (o.By == 0):
		return errors.New("give the new end, with --until or with --by")
	case !o.Until.IsZero() && o.Until.Before(time.Now()):
		return fmt.Errorf("--until: %s is in the past", inUTC(o.Until))
	default:
		return nil
	}
}

func inUTC(t time.Time) string { return t.UTC().Format(time.RFC3339) }
