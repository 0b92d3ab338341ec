package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/deploy/rbac"
	"github.com/bursar/bursar/internal/admission/server"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/operator"
	"github.com/bursar/bursar/test/await"
	testserver "github.com/bursar/bursar/test/server"
)

const (
	systemNamespace = config.DefaultSystemNamespace
	operatorAccount = "bursar"
	operatorUser    = "system:serviceaccount:" + systemNamespace + ":" + operatorAccount
)

// scene is a control plane without an operator, as its administrator sees it.
type scene struct {
	*testing.T
	client.Client
	config *rest.Config
	// as returns a client for a user impersonated by the administrator.
	as    func(rest.ImpersonationConfig) (client.Client, error)
	token string
}

// newScene starts a control plane with a ServiceAccount for the operator, still without permissions.
func newScene(t *testing.T) *scene {
	t.Helper()
	plane := startPlane(t)
	s := &scene{T: t}
	reached, err := testserver.Connect(plane.AdminKubeconfigPath())
	must(t, err)
	s.config, s.Client, s.as = reached.Config, reached.Admin, reached.As
	object := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: operatorAccount, Namespace: systemNamespace}}
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: systemNamespace}}, object)
	request := &authenticationv1.TokenRequest{}
	if err := s.SubResource("token").Create(t.Context(), object, request); err != nil {
		t.Fatal(err)
	}
	s.token = request.Status.Token
	return s
}

// permit installs the operator's roles and binds them as a cluster's administrator would.
func (s *scene) permit(roles rbac.Operator) {
	s.Helper()
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: systemNamespace, Name: operatorAccount}}
	for _, role := range []*rbacv1.ClusterRole{roles.Role, roles.Kinds} {
		s.create(role, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		})
	}
	s.create(roles.System, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: roles.System.Name, Namespace: systemNamespace}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: roles.System.Name},
	})
	s.waitMay(authorizationv1.ResourceAttributes{Verb: "list", Group: quotav1alpha1.GroupName, Resource: "resourceclaims"})
	s.waitMay(authorizationv1.ResourceAttributes{Verb: "create", Resource: "configmaps", Namespace: systemNamespace})
}

// permitInstall lets the operator install its CRDs, until the caller calls revoke.
func (s *scene) permitInstall(roles rbac.Operator) (revoke func()) {
	s.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: roles.Install.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: systemNamespace, Name: operatorAccount}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: roles.Install.Name},
	}
	s.create(roles.Install, binding)
	s.waitMay(authorizationv1.ResourceAttributes{Verb: "create", Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions"})
	return func() {
		if err := s.Delete(s.Context(), binding); err != nil {
			s.Fatal(err)
		}
	}
}

// waitMay waits until the API server knows a permission of the operator.
func (s *scene) waitMay(attributes authorizationv1.ResourceAttributes) {
	s.Helper()
	eventually(s, func() error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: operatorUser,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + systemNamespace, "system:authenticated"}, ResourceAttributes: &attributes}}
		if err := s.Create(s.Context(), review); err != nil {
			return err
		}
		if !review.Status.Allowed {
			return fmt.Errorf("the operator may not %s %s", attributes.Verb, attributes.Resource)
		}
		return nil
	})
}

// operatorConfig reaches the API server as the operator's ServiceAccount.
func (s *scene) operatorConfig() *rest.Config {
	config := rest.AnonymousClientConfig(s.config)
	config.BearerToken, config.QPS = s.token, -1
	return config
}

// run runs the operator until the caller calls stop, and returns once it enforces quota. It adds the connection to the
// API server to the options.
func (s *scene) run(asked *requests, options operator.Options) (stop func()) {
	s.Helper()
	config := s.operatorConfig()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return recorder{asked, next}
	})
	options.Config, options.DepartedInterval.Duration, options.Log = config, time.Second, logr.Discard()
	options.LeaderElection = &operator.LeaderElection{LeaseDuration: 15 * time.Second, RenewDeadline: 12 * time.Second, RetryPeriod: 100 * time.Millisecond}
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		s.Fatal(err)
	}
	options.Webhooks = server.Options{
		Listener: listener, URL: fmt.Sprintf("https://localhost:%d", listener.Addr().(*net.TCPAddr).Port),
		PeerAddress: listener.Addr().String(), SecretName: "bursar-webhooks-tls", ManageSecret: true,
	}
	o, err := operator.New(options)
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	eventually(s, func() error {
		select {
		case err := <-done:
			s.Fatalf("the operator ended: %v; it was forbidden: %q", err, asked.refusals())
		default:
		}
		if refusals := asked.refusals(); len(refusals) > 0 {
			s.Fatalf("the operator was forbidden: %q", refusals)
		}
		if err := o.Ready(); err != nil {
			return err
		}
		if err := s.isAsked(options.Webhooks.URL); err != nil {
			return err
		}
		// The API server may still call the webhooks of the operator before, which has ended.
		return client.IgnoreAlreadyExists(s.Create(s.Context(), registration(), client.DryRunAll))
	})
	return func() {
		cancel()
		if err := await.End(func() error { return <-done }); err != nil {
			s.Errorf("the operator ended: %v", err)
		}
	}
}

// isAsked returns an error unless the API server calls the webhooks at an address. On a cluster it is the constant
// address of a Service. Here each operator has another one.
func (s *scene) isAsked(url string) error {
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := s.Get(s.Context(), client.ObjectKey{Name: "bursar"}, configuration); err != nil {
		return err
	}
	for _, webhook := range configuration.Webhooks {
		if at := webhook.ClientConfig.URL; at == nil || !strings.HasPrefix(*at, url) {
			return fmt.Errorf("webhook %s is not at %s yet", webhook.Name, url)
		}
	}
	return nil
}

func (s *scene) create(objects ...client.Object) {
	s.Helper()
	for _, object := range objects {
		if err := s.Create(s.Context(), object); err != nil {
			s.Fatalf("create %T %s: %v", object, object.GetName(), err)
		}
	}
}
