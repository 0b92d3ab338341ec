package validate

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// namespace forbids deleting the system namespace. It contains buckets, and the grants and claims of consumers
// without a namespace of their own. It cannot protect a namespace already under deletion.
func (w *Webhooks) namespace(_ context.Context, c change[corev1.Namespace]) result {
	if c.new != nil || c.byBursar || c.old.Name != w.SystemNamespace || c.old.DeletionTimestamp != nil {
		return result{}
	}
	return result{forbidden: fmt.Sprintf("namespace %s holds Bursar's ledgers and may not be deleted", c.old.Name)}
}
