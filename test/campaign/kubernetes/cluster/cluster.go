// Package cluster runs the real Kubernetes control plane for a test: etcd, any number of kube-apiservers on it, and
// kube-controller-manager. The test may kill each process and start it again. The variable KUBERNETES_MINOR chooses
// their version. No container ever runs: a [Node] only reports them as running.
package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bursar/bursar/test/process"
)

// Cluster is a control plane.
type Cluster struct {
	// Etcd holds the objects of all API servers.
	Etcd *process.Command
	// Servers are the API servers. Start starts the first of them.
	Servers []*APIServer

	t   testing.TB
	dir string
	// tools has etcd and kubectl, and components the API server and controllers of the version to test with.
	tools, components string
	pki               *pki
	etcdURL           string
}

// APIServer is one kube-apiserver.
type APIServer struct {
	*process.Command

	// URL is its address.
	URL string

	cluster *Cluster
}

// Start starts etcd and an API server for the time of a test, and waits until it is ready. Anonymous users
// may do nothing, RBAC decides about all others, and the admission plugins are those of a cluster. The API server gets
// more flags, such as "--audit-webhook-mode=batch".
func Start(t testing.TB, flags ...string) *Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("it builds and starts Kubernetes")
	}
	tools, err := Build()
	if err != nil {
		t.Fatal(err)
	}
	components, err := buildMinor()
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{t: t, dir: t.TempDir(), tools: tools, components: components}
	if c.pki, err = newPKI(filepath.Join(c.dir, "pki")); err != nil {
		t.Fatal(err)
	}
	c.startEtcd()
	c.StartAPIServer(flags...)
	return c
}

// run starts a component of a binary, and waits until it is ready.
func (c *Cluster) run(binary, name string, ready func(context.Context) error, arguments ...string) *process.Command {
	c.t.Helper()
	command := process.Run(c.t, name, ready, binary, append([]string{name}, arguments...)...)
	command.WaitReady()
	return command
}

func (c *Cluster) startEtcd() {
	c.t.Helper()
	c.etcdURL = "http://" + process.FreeAddress(c.t)
	peers := "http://" + process.FreeAddress(c.t)
	c.Etcd = c.run(c.tools, "etcd", c.etcdReady,
		"--data-dir="+filepath.Join(c.dir, "etcd"), "--log-level=warn",
		"--listen-client-urls="+c.etcdURL, "--advertise-client-urls="+c.etcdURL,
		"--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers, "--initial-cluster=default="+peers)
}

func (c *Cluster) etcdReady(ctx context.Context) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{c.etcdURL}, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // it was only used to ask
	_, err = client.Get(ctx, "anything")
	return err
}

// StartAPIServer starts one more API server on the same etcd, with more flags, and waits until it is ready.
func (c *Cluster) StartAPIServer(flags ...string) *APIServer {
	c.t.Helper()
	address := process.FreeAddress(c.t)
	_, port, _ := strings.Cut(address, ":")
	certificate, key, err := c.pki.signServer()
	if err != nil {
		c.t.Fatal(err)
	}
	proxyCertificate, proxyKey, err := c.pki.signFrontProxy()
	if err != nil {
		c.t.Fatal(err)
	}
	s := &APIServer{URL: "https://" + address, cluster: c}
	s.Command = c.run(c.components, "kube-apiserver", s.Ready, append([]string{
		"--etcd-servers=" + c.etcdURL, "--request-timeout=" + process.RequestTimeout.String(),
		"--bind-address=127.0.0.1", "--secure-port=" + port,
		"--tls-cert-file=" + certificate, "--tls-private-key-file=" + key,
		"--client-ca-file=" + c.pki.authority(),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.pki.serviceAccountKey(), "--service-account-signing-key-file=" + c.pki.serviceAccountKey(),
		"--service-cluster-ip-range=10.96.0.0/16", "--endpoint-reconciler-type=none",
		"--authorization-mode=Node,RBAC", "--anonymous-auth=false",
		"--requestheader-client-ca-file=" + c.pki.authority(), "--requestheader-allowed-names=" + frontProxy,
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + proxyCertificate, "--proxy-client-key-file=" + proxyKey,
	}, flags...)...)
	c.Servers = append(c.Servers, s)
	return s
}

// StartAggregated starts the example of an aggregated API server from Kubernetes, as a ServiceAccount. It serves
// wardle.example.com. StartAggregated returns its address.
func (c *Cluster) StartAggregated(namespace, serviceAccount string) string {
	c.t.Helper()
	address := process.FreeAddress(c.t)
	_, port, _ := strings.Cut(address, ":")
	certificate, key, err := c.pki.signServer()
	if err != nil {
		c.t.Fatal(err)
	}
	kubeconfig := c.Servers[0].ServiceAccountKubeconfig(namespace, serviceAccount)
	ready := func(ctx context.Context) error { return answersOK(ctx, c.anybody(), "https://"+address+"/livez") }
	c.run(c.tools, "sample-apiserver", ready,
		"--etcd-servers="+c.etcdURL, "--bind-address=127.0.0.1", "--secure-port="+port,
		"--tls-cert-file="+certificate, "--tls-private-key-file="+key,
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		// It waits for the kinds of this plugin, which kube-apiserver serves in Kubernetes 1.36 and later.
		"--disable-admission-plugins=MutatingAdmissionPolicy",
	)
	return address
}

// anybody reaches the servers of the cluster without credentials.
func (c *Cluster) anybody() *rest.Config {
	return &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: c.pki.authority()}}
}

// answersOK returns why a URL does not answer 200, or nil.
func answersOK(ctx context.Context, config *rest.Config, url string) error {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // nothing was read
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}

// Ready asks the API server whether it is ready.
func (s *APIServer) Ready(ctx context.Context) error {
	return answersOK(ctx, s.Config(), s.URL+"/readyz")
}

// Config reaches the API server as the cluster's administrator, without a limit to the rate of requests.
func (s *APIServer) Config() *rest.Config {
	s.cluster.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig("admin", "system:masters"))
	if err != nil {
		s.cluster.t.Fatal(err)
	}
	config.QPS = -1
	return config
}

// Kubeconfig is the path of a kubeconfig of the API server for a user in some groups.
func (s *APIServer) Kubeconfig(user string, groups ...string) string {
	s.cluster.t.Helper()
	path, err := s.cluster.pki.kubeconfig(s.URL, user, groups...)
	if err != nil {
		s.cluster.t.Fatal(err)
	}
	return path
}

// ServiceAccountKubeconfig is the path of a kubeconfig of the API server for a ServiceAccount.
func (s *APIServer) ServiceAccountKubeconfig(namespace, name string) string {
	s.cluster.t.Helper()
	client, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		s.cluster.t.Fatal(err)
	}
	request, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(s.cluster.t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		s.cluster.t.Fatal(err)
	}
	path, err := s.cluster.pki.tokenKubeconfig(s.URL, request.Status.Token)
	if err != nil {
		s.cluster.t.Fatal(err)
	}
	return path
}

// StartControllers starts the controllers of Kubernetes with the given names, such as replicaset-controller, against
// the first API server. Each acts as its own ServiceAccount.
func (c *Cluster) StartControllers(names ...string) *process.Command {
	c.t.Helper()
	address := process.FreeAddress(c.t)
	_, port, _ := strings.Cut(address, ":")
	certificate, key, err := c.pki.signServer()
	if err != nil {
		c.t.Fatal(err)
	}
	ready := func(ctx context.Context) error { return answersOK(ctx, c.anybody(), "https://"+address+"/healthz") }
	kubeconfig := c.Servers[0].Kubeconfig("system:kube-controller-manager")
	return c.run(c.components, "kube-controller-manager", ready,
		"--kubeconfig="+kubeconfig, "--authentication-skip-lookup", // nobody but the probe asks it anything
		"--controllers="+strings.Join(names, ","),
		"--bind-address=127.0.0.1", "--secure-port="+port, "--tls-cert-file="+certificate, "--tls-private-key-file="+key,
		"--use-service-account-credentials", "--service-account-private-key-file="+c.pki.serviceAccountKey(),
		"--root-ca-file="+c.pki.authority(), "--leader-elect=false", "--kube-api-qps=1000", "--kube-api-burst=1000",
	)
}

// Kubectl runs kubectl as the administrator of the first API server, and returns its output and its exit code.
func (c *Cluster) Kubectl(input string, arguments ...string) (stdout, stderr string, code int) {
	c.t.Helper()
	command := exec.CommandContext(c.t.Context(), c.tools, append([]string{"kubectl"}, arguments...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+c.Servers[0].Kubeconfig("admin", "system:masters"), "HOME="+c.dir)
	var printed, complaints bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &printed, &complaints
	var exit *exec.ExitError
	if err := command.Run(); err != nil && !errors.As(err, &exit) {
		c.t.Fatalf("run kubectl: %v", err)
	}
	return printed.String(), complaints.String(), command.ProcessState.ExitCode()
}

// EtcdClient reads and writes the storage of all API servers, for the time of the test.
func (c *Cluster) EtcdClient() *clientv3.Client {
	c.t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{c.etcdURL}, Logger: zap.NewNop()})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}
