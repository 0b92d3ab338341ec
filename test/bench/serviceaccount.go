package main

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	operatorAccount = "bursar"
	// tokenSeconds is how long the token is good for: longer than any run.
	tokenSeconds = 7 * 24 * 60 * 60
)

// writeServiceAccount makes a ServiceAccount for the replicas, as they have on a cluster, and writes a kubeconfig with
// its token. It may do everything, since the benchmarks do not measure its permissions.
func writeServiceAccount(ctx context.Context, admin *rest.Config, path string) error {
	api, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: systemSpace}}
	if _, err := api.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: operatorAccount}}
	if _, err := api.CoreV1().ServiceAccounts(systemSpace).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: operatorAccount},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: systemSpace, Name: operatorAccount}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}
	if _, err := api.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return err
	}
	lifetime := int64(tokenSeconds)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &lifetime}}
	token, err := api.CoreV1().ServiceAccounts(systemSpace).CreateToken(ctx, operatorAccount, request, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[operatorAccount] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthority: admin.CAFile, CertificateAuthorityData: admin.CAData}
	kubeconfig.AuthInfos[operatorAccount] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	kubeconfig.Contexts[operatorAccount] = &clientcmdapi.Context{Cluster: operatorAccount, AuthInfo: operatorAccount}
	kubeconfig.CurrentContext = operatorAccount
	return clientcmd.WriteToFile(*kubeconfig, path)
}
