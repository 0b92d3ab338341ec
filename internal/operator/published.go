package operator

import (
	"context"
	"time"

	"github.com/bursar/bursar/internal/controller/webhookconfig"
)

// publishedInterval is how often it is looked whether an authority is published.
const publishedInterval = 50 * time.Millisecond

// published returns a function that tells whether API servers are told to check the webhooks by the
// authority of the certificate that this replica serves. One that starts after the Secret was given another
// authority serves by that at once, and the leader may not have published it yet.
func (p *parts) published(o *Operator) func(context.Context) bool {
	var isPublished bool
	var asked time.Time
	return func(ctx context.Context) bool {
		if isPublished || time.Since(asked) < publishedInterval {
			return isPublished
		}
		asked = time.Now()
		bundles, err := webhookconfig.Authorities(ctx, o.client)
		if err != nil {
			o.options.Log.V(1).Info("will look again", "err", err.Error())
			return false
		}
		for _, bundle := range bundles {
			if !p.server.certificates.IsCheckedBy(bundle) {
				return false
			}
		}
		isPublished = true
		return true
	}
}
