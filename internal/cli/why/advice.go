package why

import (
	"errors"
	"strings"

	"github.com/bursar/bursar/internal/claims/message"
)

// otherErrors are errors on other subjects than the quota of a consumer, by a part of their text, with their meaning.
var otherErrors = []struct{ part, meaning string }{
	{"failed calling webhook", "the API server does not reach a webhook, so nobody can create objects of this kind: ask the platform team about the webhook that the error names"},
	{"cannot be applied to this object", "a policy fails on this object, as the error says: correct the object, or ask an administrator to correct the policy"},
	{"ResourceQuotaAllocation", "a cap on the ResourceQuotas of several namespaces has no room: see kubectl get lrqalloc, and docs/tasks/allocations.md"},
	{"accepts nothing new", "the registration of the resource type is being deleted: ask an administrator"},
	{message.HeldInFlight, "requests that may still fail hold the quota: try again"},
	{message.HeldByRequester, "your own requests in flight hold half of what was free: wait until their objects appear, and look for what rejects them if they do not"},
	{message.HeldUntilFailed, "your requests of the last minutes failed after Bursar had admitted them: look for what rejects them, and ask for at most half of what is free"},
	{"exceeded quota:", "this is about a ResourceQuota of the namespace, which is Kubernetes' own: see kubectl describe resourcequota"},
}

// unreached explains why nobody can create a protected object, to somebody who cannot change that.
const unreached = "nobody can create or change objects of this kind, because Bursar does not answer. Nothing is wrong with your object: " +
	"tell your platform team, who finds the cause with bursar status and in docs/tasks/troubleshooting.md"

// adviceOn explains an error without a consumer.
func adviceOn(text string) error {
	if message.IsUnreached(text) {
		return errors.New(unreached)
	}
	for _, other := range otherErrors {
		if strings.Contains(text, other.part) {
			return errors.New(other.meaning)
		}
	}
	return errors.New("this names no consumer with a lack of quota; docs/reference/messages.md lists Bursar's messages and what to do")
}
