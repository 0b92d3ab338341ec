package allocation

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	caps "github.com/bursar/bursar/internal/allocation"
	"github.com/bursar/bursar/internal/catalog"
)

// attempt is an attempt to create the default in a namespace.
type attempt struct {
	at time.Time
	// rejection is the API server's reason, or empty.
	rejection string
}

// createDefaults counts the namespaces without a limit for a capped resource, and creates the default ResourceQuota in
// them. After a rejection, or if a ResourceQuota of this name exists, it tries again after resyncInterval.
func (c *Controller) createDefaults(ctx context.Context, declared *catalog.Allocation, object *quotav1alpha1.ResourceQuotaAllocation) error {
	unlimited := caps.Unlimited(c.Members.Observe(declared.Selector, declared.Scopes, nil).Used, declared.Capped)
	c.metrics.unlimited.WithLabelValues(object.Name).Set(float64(len(unlimited)))
	k := c.stateOf(object.Name)
	before := k.tried
	k.tried = map[string]attempt{}
	if object.Spec.Default == nil || object.UID != declared.UID {
		return nil
	}
	for _, u := range unlimited {
		last := before[u.Namespace]
		if time.Since(last.at) < resyncInterval {
			k.tried[u.Namespace] = last
			continue
		}
		rejection, err := c.createDefault(ctx, object, u)
		if err != nil {
			return err
		}
		if rejection != "" && rejection != last.rejection && c.Events != nil {
			c.Events.Eventf(reference(object), nil, corev1.EventTypeWarning, quotav1alpha1.EventDefaultRefused, "Settle",
				"namespace %s cannot get the default: %s", u.Namespace, rejection)
		}
		k.tried[u.Namespace] = attempt{time.Now(), rejection}
	}
	return nil
}

// createDefault creates the default for the unlimited resources of a namespace, and returns the reason of a rejection.
func (c *Controller) createDefault(ctx context.Context, object *quotav1alpha1.ResourceQuotaAllocation, u quotav1alpha1.UnlimitedNamespace) (rejection string, err error) {
	hard := corev1.ResourceList{}
	for _, name := range u.Resources {
		for _, limiting := range caps.Limiting(object.Spec.Default.Hard, name) {
			hard[limiting] = object.Spec.Default.Hard[limiting].DeepCopy()
		}
	}
	if len(hard) == 0 {
		return "", nil
	}
	spec := object.Spec.Allocation.DeepCopy()
	spec.Hard = hard
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: u.Namespace, Name: cmp.Or(object.Spec.Default.Name, quotav1alpha1.DefaultResourceQuotaName)}, Spec: *spec,
	}
	if err := c.writes.Wait(ctx); err != nil {
		return "", err
	}
	err = c.Client.Create(ctx, quota)
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return "", nil
	case apierrors.IsAlreadyExists(err):
		return fmt.Sprintf("there is a ResourceQuota %s that does not limit %v", quota.Name, u.Resources), nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		return err.Error(), nil
	}
	return "", fmt.Errorf("create ResourceQuota %s/%s: %w", quota.Namespace, quota.Name, err)
}
