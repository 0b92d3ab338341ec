package kubernetes

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/test/campaign/kubernetes/cluster"
	"github.com/bursar/bursar/test/kit"
	"github.com/bursar/bursar/test/process"
	operator "github.com/bursar/bursar/test/replica"
)

// TestClientCertificates does what the pages on client certificates and on failed requests say. An API server with a
// certificate calls the webhooks, and nobody else. If it also sends its audit events, quota of a failed request is free
// long before the request timeout.
func TestClientCertificates(t *testing.T) {
	f := &folder{t: t, dir: t.TempDir(), webhooks: newBalancer(t)}
	f.followClientCertificates()
	withCertificate := "--admission-control-config-file=" + f.path("admission.yaml")

	w := newWorldBehind(t, f.webhooks, withCertificate)
	w.callers = &config.ClientCertificates{CAFile: f.path("callers-ca.crt"), Names: []string{"kube-apiserver"}}
	t.Setenv("KUBECONFIG", w.Servers[0].Kubeconfig("admin", "system:masters"))
	f.shell(f.block(clientCertificates, "kubectl create secret")) // only Pods mount it
	replica := w.startReplica(t)
	w.setUp(t)

	t.Run("the paths are no secret", w.testPathsAreNoSecret)
	t.Run("nobody else may call", func(t *testing.T) { f.testNobodyElseMayCall(t, w) })

	f.followFailedRequests()
	reporting := w.StartAPIServer(append(f.flagsOfThePage(), withCertificate)...)
	t.Run("without reports", func(t *testing.T) {
		after := w.newTeam(t, "team-unreported").serveAfterRefusal(w.Servers[0])
		if after < process.RequestTimeout {
			t.Errorf("quota of a request that nobody reported was free after %s: the test proves nothing about reports", after)
		}
	})
	t.Run("with reports", func(t *testing.T) {
		after := w.newTeam(t, "team-reported").serveAfterRefusal(reporting)
		if after >= process.RequestTimeout {
			t.Errorf("quota of a reported request was free after %s, no sooner than without the report", after)
		}
		if metrics := get(t, replica.Endpoints()+"/metrics"); !strings.Contains(metrics, `bursar_admission_failed_requests_total{certainty="certain"} 1`) {
			t.Errorf("the metrics count no failed request:\n%s", regexp.MustCompile("(?m)^bursar_admission_failed.*$").FindString(metrics))
		}
	})
}

// testPathsAreNoSecret reads the published paths: at most the version of the declarations follows a name. Calls with
// the API server's certificate reach them.
func (w *world) testPathsAreNoSecret(t *testing.T) {
	n := w.newTeam(t, "team-certified")
	n.grant(kit.Amounts{pods: 1, memory: mebibyte})
	n.create(n.pod("a", 1))
	n.wantExceeded(n.creating(n.pod("b", 0)), "Pod", "1 pods", "1", "1")

	var configurations admissionregistrationv1.ValidatingWebhookConfigurationList
	if err := w.List(t.Context(), &configurations); err != nil {
		t.Fatal(err)
	}
	published := 0
	for _, configuration := range configurations.Items {
		for _, webhook := range configuration.Webhooks {
			published++
			path := strings.TrimPrefix(*webhook.ClientConfig.URL, w.webhooks.URL())
			if !regexp.MustCompile(`^/[a-z-]+(/[0-9a-f]+-[0-9a-f]+)?$`).MatchString(path) {
				t.Errorf("%s has the path %s, want no secret in it", webhook.Name, path)
			}
		}
	}
	if published == 0 {
		t.Error("no webhook is published")
	}
}

// testNobodyElseMayCall calls without a certificate and with another name of the same authority, and creates through an
// API server without a certificate.
func (f *folder) testNobodyElseMayCall(t *testing.T, w *world) {
	_, sign, _ := strings.Cut(f.block(clientCertificates, "-CA callers-ca.crt"), "\n") // after the authority is made
	f.shell(strings.NewReplacer("CN=kube-apiserver", "CN=somebody", "bursar.key", "somebody.key", "bursar.crt", "somebody.crt").Replace(sign))
	somebody, err := tls.LoadX509KeyPair(f.path("somebody.crt"), f.path("somebody.key"))
	if err != nil {
		t.Fatal(err)
	}
	for name, certificates := range map[string][]tls.Certificate{"without a certificate": nil, "with another name": {somebody}} {
		caller := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
			Certificates: certificates, InsecureSkipVerify: true, //nolint:gosec // it is the caller who proves something
		}}}
		for _, path := range []string{"/enforce/1", "/audit"} {
			response, err := caller.Post(f.webhooks.URL()+path, "application/json", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != http.StatusNotFound {
				t.Errorf("a call of %s %s is answered with %s, want 404", path, name, response.Status)
			}
		}
	}

	n := w.newTeam(t, "team-uncertified")
	uncertified := newPlainClient(t, w.StartAPIServer())
	if err := uncertified.Create(t.Context(), n.pod("a", 1)); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "failed calling webhook") {
		t.Errorf("a create through an API server without a certificate: got %v, want a failed call", err)
	}
}

// serveAfterRefusal has a ResourceQuota refuse a Pod through an API server, and returns the time until another Pod gets
// the quota that the refused one held.
func (n *team) serveAfterRefusal(server *cluster.APIServer) time.Duration {
	n.Helper()
	n.grant(kit.Amounts{pods: 2, memory: 2 * mebibyte})
	noRequests := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "native", Namespace: n.name}, Spec: corev1.ResourceQuotaSpec{
		Hard:   corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")},
		Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort},
	}}
	n.create(noRequests, n.pod("a", 1))
	n.wantQuotaUsed(0)

	api := newPlainClient(n.T, server)
	refused := n.pod("refused", 0)
	refused.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	n.eventually(func() error { // the API server has to learn of the ResourceQuota first
		err := api.Create(n.Context(), refused, client.DryRunAll)
		if !isRefusedByQuota(err) {
			return fmt.Errorf("got %w, want the ResourceQuota to refuse a Pod without requests", err)
		}
		return nil
	})

	if err := api.Create(n.Context(), refused); !isRefusedByQuota(err) {
		n.Fatalf("got %v, want the ResourceQuota to refuse a Pod without requests", err)
	}
	began := time.Now()
	sibling := n.pod("sibling", 1)
	n.eventually(func() error { return api.Create(n.Context(), sibling) })
	after := time.Since(began)
	n.Logf("after a request that a ResourceQuota refused, a sibling was served in %s", after.Round(time.Millisecond))
	return after
}

const (
	clientCertificates = "docs/tasks/client-certificates.md"
	failedRequests     = "docs/tasks/report-failed-requests.md"
)

// folder stands for /etc/kubernetes/admission on a control plane node.
type folder struct {
	t        *testing.T
	dir      string
	webhooks *operator.Balancer
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

// followClientCertificates makes the certificates and writes the files of the page.
func (f *folder) followClientCertificates() {
	f.t.Helper()
	f.shell(f.block(clientCertificates, "openssl req"))
	f.write("webhooks.kubeconfig", f.block(clientCertificates, "kind: Config\n"))
	f.write("admission.yaml", f.block(clientCertificates, "kind: AdmissionConfiguration"))
}

// followFailedRequests saves the authority of the webhooks and writes the files of the page.
func (f *folder) followFailedRequests() {
	f.t.Helper()
	f.shell(f.block(failedRequests, "kubectl get secret"))
	f.write("audit-webhook.yaml", f.block(failedRequests, "kind: Config\n"))
	f.write("audit-policy.yaml", f.block(failedRequests, "kind: Policy\n"))
}

// flagsOfThePage are the flags of an API server that reports failed requests.
func (f *folder) flagsOfThePage() []string {
	f.t.Helper()
	return strings.Fields(f.here(f.block(failedRequests, "--audit-webhook-mode")))
}

// block returns the block of a page with a text in it.
func (f *folder) block(page, with string) string {
	f.t.Helper()
	root, err := process.Root()
	if err != nil {
		f.t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, found := range regexp.MustCompile("(?s)```[a-z]+\n(.*?)```").FindAllStringSubmatch(string(content), -1) {
		if strings.Contains(found[1], with) {
			return found[1]
		}
	}
	f.t.Fatalf("%s has no block with %q", page, with)
	return ""
}

// here puts the test's own folder and webhooks into a text of a page. The operator is not behind a Service, so the page
// says to take the host and port of its URL.
func (f *folder) here(text string) string {
	host := strings.TrimPrefix(f.webhooks.URL(), "https://")
	return strings.NewReplacer(
		"/etc/kubernetes/admission/", f.dir+"/",
		"--namespace bursar-system", "--namespace "+system,
		"https://10.96.0.42", f.webhooks.URL(),
		"tls-server-name: bursar-webhooks.bursar-system.svc", "tls-server-name: localhost",
		"name: bursar-webhooks.bursar-system.svc", "name: "+host,
	).Replace(text)
}

func (f *folder) write(name, content string) {
	f.t.Helper()
	if err := os.WriteFile(f.path(name), []byte(f.here(content)), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// shell runs lines of a page in the folder.
func (f *folder) shell(lines string) {
	f.t.Helper()
	tools, err := cluster.Build()
	if err != nil {
		f.t.Fatal(err)
	}
	command := exec.CommandContext(f.t.Context(), "sh", "-ec", strings.ReplaceAll(f.here(lines), "kubectl ", tools+" kubectl "))
	command.Dir = f.dir
	if output, err := command.CombinedOutput(); err != nil {
		f.t.Fatalf("%s: %v\n%s", lines, err, output)
	}
}

// get returns what a URL answers.
func get(t testing.TB, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
