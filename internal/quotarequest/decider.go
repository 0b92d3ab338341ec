package quotarequest

import (
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// IsUser reports whether a user is the authenticated one.
func IsUser(u *quotav1alpha1.RequestUser, user authenticationv1.UserInfo) bool {
	return u != nil && u.Username == user.Username && u.UID == user.UID
}

// IsSameUser reports whether two users are the same, whatever groups they were in at the time.
func IsSameUser(a, b *quotav1alpha1.RequestUser) bool {
	return a != nil && b != nil && a.Username == b.Username && a.UID == b.UID
}

// IsDecided reports whether further decisions on a request do not count.
func IsDecided(request *quotav1alpha1.QuotaRequest) bool {
	return IsFinal(request) || request.Status.Approved != nil || request.Spec.Withdrawn
}

// IsOwn reports whether a user made a request. Nobody may decide on a request with an unknown requester, so it counts
// as their own.
func IsOwn(request *quotav1alpha1.QuotaRequest, user authenticationv1.UserInfo) bool {
	return request.Spec.Requester == nil || request.Spec.Requester.Username == user.Username
}

// MayNotDecide returns why a user may not decide on a request, or "". The user also needs the right to create
// QuotaDecisions.
func MayNotDecide(request *quotav1alpha1.QuotaRequest, decision quotav1alpha1.Decision, user authenticationv1.UserInfo) string {
	state := apimeta.FindStatusCondition(request.Status.Conditions, quotav1alpha1.ConditionApproved)
	switch {
	case IsOwn(request, user):
		return "nobody decides on a request of their own"
	case state == nil:
		return "the request is new, and its approvers are not known yet: try again"
	case request.Status.ApprovalsNeeded == 0 && !IsFinal(request):
		return "the approvers of the request are not known: " + state.Message
	case IsDecided(request):
		return fmt.Sprintf("the request is decided: %s", state.Message)
	case len(request.Status.Approvers) > 0 && !isInOne(user, request.Status.Approvers):
		return fmt.Sprintf("only members of the groups %s decide on this request", strings.Join(request.Status.Approvers, ", "))
	case decision == quotav1alpha1.DecisionApprove && hasDecided(request, user):
		return "you have already approved it, and another person must approve it, too"
	default:
		return ""
	}
}

// isInOne reports whether a user is a member of one of some groups.
func isInOne(user authenticationv1.UserInfo, groups []string) bool {
	return slices.ContainsFunc(groups, func(group string) bool { return slices.Contains(user.Groups, group) })
}

// hasDecided reports whether a decision of a user counts already.
func hasDecided(request *quotav1alpha1.QuotaRequest, user authenticationv1.UserInfo) bool {
	return slices.ContainsFunc(request.Status.Decisions, func(d quotav1alpha1.RequestDecision) bool { return IsUser(d.DecidedBy, user) })
}
