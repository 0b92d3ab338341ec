package restore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bursar/bursar/internal/cli/status"
)

const (
	// webhookConfiguration is the name of the ValidatingWebhookConfiguration of Bursar.
	webhookConfiguration = "bursar"
	// administrators is the group with all rights.
	administrators = "system:masters"
)

// becomeBursar makes the client that acts as Bursar, and makes sure that the caller has the right to do so.
func (r *restorer) becomeBursar(ctx context.Context) error {
	api, err := kubernetes.NewForConfig(r.Config)
	if err != nil {
		return fmt.Errorf("reach the API server at %s: %w", r.Config.Host, err)
	}
	user := r.BursarUser
	if user == "" {
		if user, err = findUser(ctx, api); err != nil {
			return err
		}
	}
	for _, needed := range []authorizationv1.ResourceAttributes{
		{Verb: "impersonate", Resource: "users", Name: user}, {Verb: "impersonate", Resource: "groups", Name: administrators},
	} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &needed}}
		answer, err := api.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("ask the API server what you may do: %w", err)
		}
		if !answer.Status.Allowed {
			return fmt.Errorf("only Bursar writes granted claims, and you may not impersonate %s %s: run this as an administrator of the cluster",
				strings.TrimSuffix(needed.Resource, "s"), needed.Name)
		}
	}
	r.bursarConfig = rest.CopyConfig(r.Config)
	r.bursarConfig.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{administrators}}
	if r.bursar, err = dynamic.NewForConfig(r.bursarConfig); err != nil {
		return fmt.Errorf("reach the API server at %s: %w", r.Config.Host, err)
	}
	return nil
}

// findUser returns the user name of Bursar, by its webhooks.
func findUser(ctx context.Context, api kubernetes.Interface) (string, error) {
	configuration, err := api.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, webhookConfiguration, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", errors.New("the server has no webhooks of Bursar: start Bursar, and run bursar status")
	}
	if err != nil {
		return "", fmt.Errorf("read ValidatingWebhookConfiguration %s: %w", webhookConfiguration, err)
	}
	if user := status.BursarUser(configuration); user != "" {
		return user, nil
	}
	return "", fmt.Errorf("ValidatingWebhookConfiguration %s does not name the user of Bursar: give --bursar-user", webhookConfiguration)
}
