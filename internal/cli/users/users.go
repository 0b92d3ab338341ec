// Package users gives people access to an API server: a client certificate, signed through the server's own API, and a
// role. Only commands import it.
package users

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	// lifetimeMin is the shortest lifetime of a certificate that Kubernetes signs.
	lifetimeMin = 10 * time.Minute
	// signTimeout bounds the wait for a certificate.
	signTimeout, signPoll = 30 * time.Second, 50 * time.Millisecond
	// rolePrefix begins the names of Bursar's own roles. Commands accept these names without it.
	rolePrefix = "bursar-"
)

// Options describe a user.
type Options struct {
	// Config reaches the API server as an administrator.
	Config *rest.Config
	// Server is the URL of the API server for the user. Default: that of Config.
	Server string
	// Name is the name of the user, and Groups are its groups.
	Name   string
	Groups []string
	// Namespace is where the user has the role. If it is empty, the user has it everywhere.
	Namespace string
	// Role is the name of a ClusterRole. For Bursar's own roles the prefix is optional.
	Role string
	// Lifetime is how long the certificate is valid.
	Lifetime time.Duration
}

// Create gives a user a role and returns a kubeconfig for it. A repetition gives the user another certificate.
func Create(ctx context.Context, o Options) ([]byte, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	role, err := findRole(ctx, client, o.Role)
	if err != nil {
		return nil, err
	}
	if o.Namespace != "" {
		if _, err := client.CoreV1().Namespaces().Get(ctx, o.Namespace, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("namespace %s does not exist: create it first, with kubectl create namespace %s", o.Namespace, o.Namespace)
		} else if err != nil {
			return nil, fmt.Errorf("read namespace %s: %w", o.Namespace, err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	certificate, err := sign(ctx, client, o, key)
	if err != nil {
		return nil, err
	}
	if err := bind(ctx, client, o, role); err != nil {
		return nil, err
	}
	return o.kubeconfig(key, certificate)
}

func (o *Options) validate() error {
	switch {
	case o.Name == "" || len(content.IsPathSegmentName(o.Name)) > 0:
		return fmt.Errorf("%q cannot be the name of a user: it must not be empty or contain / or %%", o.Name)
	case strings.HasPrefix(o.Name, "system:"):
		return fmt.Errorf("%s cannot be the name of a user: names that begin with system: are for Kubernetes itself", o.Name)
	case o.Lifetime < lifetimeMin:
		return fmt.Errorf("a certificate must be valid for at least %s", lifetimeMin)
	}
	for _, group := range o.Groups {
		if strings.HasPrefix(group, "system:") {
			return fmt.Errorf("%s cannot be a group of a user: groups that begin with system: are for Kubernetes itself", group)
		}
	}
	return nil
}

// findRole returns the name of a ClusterRole, with the prefix of Bursar's roles if the name needs it.
func findRole(ctx context.Context, client kubernetes.Interface, name string) (string, error) {
	for _, candidate := range []string{name, rolePrefix + name} {
		_, err := client.RbacV1().ClusterRoles().Get(ctx, candidate, metav1.GetOptions{})
		if err == nil {
			return candidate, nil
		}
		if !apierrors.IsNotFound(err) {
			return "", fmt.Errorf("read ClusterRole %s: %w", candidate, err)
		}
	}
	return "", fmt.Errorf("there is no ClusterRole %s; choose view, edit, admin, tenant-viewer, tenant-admin, project-owner or another", name)
}

// sign makes the API server sign a certificate.
func sign(ctx context.Context, client kubernetes.Interface, o Options, key crypto.PrivateKey) ([]byte, error) {
	request, err := certutil.MakeCSR(key, &pkix.Name{CommonName: o.Name, Organization: o.Groups}, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("make the request for a certificate: %w", err)
	}
	api := client.CertificatesV1().CertificateSigningRequests()
	seconds := int32(min(o.Lifetime.Seconds(), 1<<30))
	object, err := api.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "bursar-user-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: request, SignerName: certificatesv1.KubeAPIServerClientSignerName, ExpirationSeconds: &seconds,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("request a certificate: %w", err)
	}
	name := object.Name
	// Kubernetes deletes a remaining request after an hour.
	defer api.Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{}) //nolint:errcheck // see above
	object.Status.Conditions = append(object.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "BursarUserCreate", Message: "approved by bursar user create",
	})
	if _, err := api.UpdateApproval(ctx, name, object, metav1.UpdateOptions{}); err != nil {
		return nil, fmt.Errorf("approve the request for a certificate: %w", err)
	}
	var certificate []byte
	err = wait.PollUntilContextTimeout(ctx, signPoll, signTimeout, true, func(ctx context.Context) (bool, error) {
		object, err := api.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, condition := range object.Status.Conditions {
			if condition.Type == certificatesv1.CertificateFailed {
				return false, errors.New(condition.Message)
			}
		}
		certificate = object.Status.Certificate
		return len(certificate) > 0, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return nil, fmt.Errorf("no certificate was signed within %s: check that the cluster signs for %s", signTimeout, certificatesv1.KubeAPIServerClientSignerName)
	}
	if err != nil {
		return nil, fmt.Errorf("wait for the certificate: %w", err)
	}
	return certificate, nil
}

// bind gives the user the role.
func bind(ctx context.Context, client kubernetes.Interface, o Options, role string) error {
	meta := metav1.ObjectMeta{Name: o.Name + ":" + role}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: o.Name}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	var stored []rbacv1.Subject
	var err error
	if o.Namespace == "" {
		api := client.RbacV1().ClusterRoleBindings()
		_, err = api.Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			var binding *rbacv1.ClusterRoleBinding
			if binding, err = api.Get(ctx, meta.Name, metav1.GetOptions{}); err == nil && binding.RoleRef == ref {
				stored = binding.Subjects
			}
		}
	} else {
		api := client.RbacV1().RoleBindings(o.Namespace)
		_, err = api.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			var binding *rbacv1.RoleBinding
			if binding, err = api.Get(ctx, meta.Name, metav1.GetOptions{}); err == nil && binding.RoleRef == ref {
				stored = binding.Subjects
			}
		}
	}
	if err != nil {
		return fmt.Errorf("bind ClusterRole %s to user %s: %w", role, o.Name, err)
	}
	if stored != nil && !equality.Semantic.DeepEqual(stored, subjects) {
		return fmt.Errorf("binding %s exists and gives ClusterRole %s to others than user %s: delete it first", meta.Name, role, o.Name)
	}
	return nil
}

// kubeconfig returns the kubeconfig of the user.
func (o *Options) kubeconfig(key *ecdsa.PrivateKey, certificate []byte) ([]byte, error) {
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, fmt.Errorf("encode the key: %w", err)
	}
	config := rest.CopyConfig(o.Config)
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, fmt.Errorf("read the certificate authority of the API server: %w", err)
	}
	server := o.Server
	if server == "" {
		server = config.Host
	}
	return clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"bursar": {
			Server: server, CertificateAuthorityData: config.CAData, InsecureSkipTLSVerify: config.Insecure, TLSServerName: config.ServerName,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{o.Name: {ClientCertificateData: certificate, ClientKeyData: encoded}},
		Contexts:       map[string]*clientcmdapi.Context{"bursar": {Cluster: "bursar", AuthInfo: o.Name, Namespace: o.Namespace}},
		CurrentContext: "bursar",
	})
}
