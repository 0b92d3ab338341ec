package status

import (
	"fmt"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

const (
	// notByBursar is the match condition with the name of Bursar's user.
	notByBursar       = "not-by-bursar"
	notByBursarPrefix = "request.userInfo.username != "
)

// BursarUser returns the name of Bursar's user by its webhooks, or "" if they name none.
func BursarUser(configuration *admissionregistrationv1.ValidatingWebhookConfiguration) string {
	for _, webhook := range configuration.Webhooks {
		for _, condition := range webhook.MatchConditions {
			quoted, isOurs := strings.CutPrefix(condition.Expression, notByBursarPrefix)
			if user, err := strconv.Unquote(quoted); condition.Name == notByBursar && isOurs && err == nil {
				return user
			}
		}
	}
	return ""
}

// sharedUser warns if Bursar runs as somebody else than a ServiceAccount. The webhooks leave out the requests of
// Bursar's user, and so those of everybody with the same credentials.
func (r *reader) sharedUser() string {
	user := BursarUser(r.webhooks)
	if r.isStandalone || user == "" || strings.HasPrefix(user, serviceaccount.ServiceAccountUsernamePrefix) {
		return ""
	}
	return fmt.Sprintf("the operator runs as user %s, so quota does not limit the requests of anybody with this user: "+
		"give the operator a ServiceAccount, or a user that nobody else has", user)
}
