package validate

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// sameHand returns why an approval by a user adds no other person to a request, or "". Whoever may act for a
// ServiceAccount counts as the same person, in both directions: as its requester or earlier approver, or through it.
func (w *Webhooks) sameHand(ctx context.Context, request *quotav1alpha1.QuotaRequest, decider authenticationv1.UserInfo) (string, error) {
	if requester := request.Spec.Requester; requester != nil {
		acts, err := w.actForEachOther(ctx, decider, requester)
		if err != nil {
			return "", err
		}
		if acts != "" {
			return "nobody approves a request of their own, and " + acts + ": another person must decide", nil
		}
	}
	for i := range request.Status.Decisions {
		d := &request.Status.Decisions[i]
		if d.Decision != quotav1alpha1.DecisionApprove || d.DecidedBy == nil {
			continue
		}
		acts, err := w.actForEachOther(ctx, decider, d.DecidedBy)
		if err != nil {
			return "", err
		}
		if acts != "" {
			return fmt.Sprintf("%s has already approved it, and %s: another person must approve it, too", d.DecidedBy.Username, acts), nil
		}
	}
	return "", nil
}

// actForEachOther returns a sentence if a decider may act for another user or the other way round, and "" if not. Only
// the names of the other user's groups as a ServiceAccount are known.
func (w *Webhooks) actForEachOther(ctx context.Context, decider authenticationv1.UserInfo, other *quotav1alpha1.RequestUser) (string, error) {
	if decider.Username == other.Username {
		return "", nil // this has an answer of its own
	}
	may, err := w.mayActFor(ctx, decider, other.Username)
	if may || err != nil {
		return fmt.Sprintf("you may act for %s", other.Username), err
	}
	if may, err = w.mayActFor(ctx, knownAs(other), decider.Username); may || err != nil {
		return fmt.Sprintf("%s may act for you, %s", other.Username, decider.Username), err
	}
	return "", nil
}

// mayActFor reports whether a user may get a token of a ServiceAccount, or impersonate it. Nobody acts for other users:
// who may impersonate them passes for them everywhere.
func (w *Webhooks) mayActFor(ctx context.Context, who authenticationv1.UserInfo, name string) (bool, error) {
	namespace, account, err := serviceaccount.SplitUsername(name)
	if err != nil {
		return false, nil //nolint:nilerr // it is no ServiceAccount
	}
	for _, what := range []authorizationv1.ResourceAttributes{
		{Namespace: namespace, Verb: "create", Version: "v1", Resource: "serviceaccounts", Subresource: "token", Name: account},
		{Namespace: namespace, Verb: "impersonate", Version: "v1", Resource: "serviceaccounts", Name: account},
	} {
		may, err := w.Permissions.May(ctx, who, what)
		if err != nil {
			return false, fmt.Errorf("find out whether %s may act for %s: %w", who.Username, name, err)
		}
		if may {
			return true, nil
		}
	}
	return false, nil
}

// knownAs returns a user who made an earlier object, with the groups that follow from the name.
func knownAs(u *quotav1alpha1.RequestUser) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: u.Username, UID: u.UID, Groups: []string{user.AllAuthenticated}}
	if namespace, _, err := serviceaccount.SplitUsername(u.Username); err == nil {
		info.Groups = append(info.Groups, serviceaccount.MakeGroupNames(namespace)...)
	}
	return info
}
