// Package foureyes finds users who count as one person in the decision on a request: a ServiceAccount, and whoever may
// act for it. The webhook and the controller of requests ask it.
package foureyes

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Permissions looks up the permissions of users.
type Permissions interface {
	// May reports whether a user may do something. An error means that the answer is unknown.
	May(ctx context.Context, who authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error)
}

// Acting says that one user may act for another. The zero value says that nobody does.
type Acting struct{ Actor, For string }

// Find finds out whether one of two users may act for the other. Two equal names are the same user: nobody acts for
// themselves.
func Find(ctx context.Context, permissions Permissions, a, b authenticationv1.UserInfo) (Acting, error) {
	if a.Username == b.Username {
		return Acting{}, nil
	}
	for _, pair := range [][2]authenticationv1.UserInfo{{a, b}, {b, a}} {
		actor, name := pair[0], pair[1].Username
		may, err := mayActFor(ctx, permissions, actor, name)
		if err != nil {
			return Acting{}, fmt.Errorf("find out whether %s may act for %s: %w", actor.Username, name, err)
		}
		if may {
			return Acting{Actor: actor.Username, For: name}, nil
		}
	}
	return Acting{}, nil
}

// mayActFor reports whether a user has one of the rights that make them a ServiceAccount. Nobody acts for other users:
// who may impersonate them passes for them everywhere.
func mayActFor(ctx context.Context, permissions Permissions, who authenticationv1.UserInfo, name string) (bool, error) {
	namespace, account, err := serviceaccount.SplitUsername(name)
	if err != nil {
		return false, nil //nolint:nilerr // it is no ServiceAccount
	}

	rights := []authorizationv1.ResourceAttributes{
		{Verb: "create", Resource: "serviceaccounts", Subresource: "token", Name: account},
		{Verb: "impersonate", Resource: "serviceaccounts", Name: account},
		// A Pod acts as any ServiceAccount of its namespace, and a Secret may have the token of one, or ask for it.
		{Verb: "create", Resource: "pods"},
		{Verb: "create", Resource: "pods", Subresource: "exec"},
		{Verb: "create", Resource: "secrets"},
		{Verb: "get", Resource: "secrets"},
		{Verb: "list", Resource: "secrets"},
		{Verb: "watch", Resource: "secrets"},
	}
	answers := make([]bool, len(rights))
	questions, ctx := errgroup.WithContext(ctx)
	for i, right := range rights {
		right.Namespace, right.Version = namespace, "v1"
		questions.Go(func() error {
			may, err := permissions.May(ctx, who, right)
			answers[i] = may
			return err
		})
	}
	if err := questions.Wait(); err != nil {
		return false, err
	}
	return slices.Contains(answers, true), nil
}

// KnownAs returns a user as recorded with a request or a decision. Without recorded groups, as in objects of an earlier
// version of Bursar, the user has those that follow from the name.
func KnownAs(u *quotav1alpha1.RequestUser) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: u.Username, UID: u.UID, Groups: slices.Clone(u.Groups)}
	if len(info.Groups) > 0 {
		return info
	}
	info.Groups = []string{user.AllAuthenticated}
	if namespace, _, err := serviceaccount.SplitUsername(u.Username); err == nil {
		info.Groups = append(info.Groups, serviceaccount.MakeGroupNames(namespace)...)
	}
	return info
}
