package validate

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// namespace keeps the system namespace: with it would go buckets, and grants and claims of
// consumers that have no namespace of their own. One that is being deleted is past keeping.
func (w *Webhooks) namespace(_ context.Context, c change[corev1.Namespace]) result {
	if c.new != nil || c.byBursar || c.old.Name != w.SystemNamespace || c.old.DeletionTimestamp != nil {
		return result{}
	}
	return result{forbidden: fmt.Sprintf("namespace %s holds Bursar's books and may not be deleted", c.old.Name)}
}
