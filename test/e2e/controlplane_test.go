package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/bursar/bursar/internal/standalone/apiserver"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/etcd"
)

// runningPlane is a control plane running for a test.
type runningPlane struct {
	*apiserver.ControlPlane
	kubernetes.Interface
	stop func()
}

// runPlane starts a control plane. It stops with the test, or before.
func runPlane(t *testing.T, o apiserver.Options) *runningPlane {
	t.Helper()
	o.Listen = "127.0.0.1:0"
	ctx, cancel := context.WithCancel(context.Background())
	running, err := apiserver.Start(ctx, o)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	p := &runningPlane{ControlPlane: running, stop: func() {
		cancel()
		if err := await.End(func() error { <-running.Ended(); return nil }); err != nil {
			t.Errorf("the control plane: %v", err)
		}
	}}
	t.Cleanup(p.stop)
	if p.Interface, err = kubernetes.NewForConfig(running.Config()); err != nil {
		t.Fatal(err)
	}
	return p
}

// configMap creates a ConfigMap with owners.
func (p *runningPlane) configMap(t *testing.T, namespace, name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	t.Helper()
	object, err := p.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// gone is nil once a ConfigMap does not exist.
func (p *runningPlane) gone(ctx context.Context, namespace, name string) error {
	object, err := p.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("ConfigMap %s still exists: %+v, %v", name, object.ObjectMeta, err)
}

// TestControllers proves that the controllers of Kubernetes clean up, and that etcd does not log each of their
// requests. Beside other tests, etcd would log the slow ones.
func TestControllers(t *testing.T) {
	dir := t.TempDir()
	p := runPlane(t, apiserver.Options{DataDir: dir})
	for name, policy := range map[string]metav1.DeletionPropagation{
		"background": metav1.DeletePropagationBackground, "foreground": metav1.DeletePropagationForeground,
	} {
		t.Run(name, func(t *testing.T) {
			owner := p.configMap(t, metav1.NamespaceDefault, name+"-owner")
			reference := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, BlockOwnerDeletion: new(true)}
			owned := p.configMap(t, metav1.NamespaceDefault, name+"-owned", reference)
			other := p.configMap(t, metav1.NamespaceDefault, name+"-other")
			if err := p.CoreV1().ConfigMaps(owner.Namespace).Delete(t.Context(), owner.Name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
				t.Fatal(err)
			}
			eventually(t, func() error {
				return errors.Join(p.gone(t.Context(), owner.Namespace, owner.Name), p.gone(t.Context(), owned.Namespace, owned.Name))
			})
			if p.gone(t.Context(), other.Namespace, other.Name) == nil {
				t.Error("a ConfigMap without an owner is gone as well")
			}
		})
	}
	t.Run("namespace", func(t *testing.T) {
		_, err := p.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p.configMap(t, "team", "settings")
		if err := p.CoreV1().Namespaces().Delete(t.Context(), "team", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error {
			if _, err := p.CoreV1().Namespaces().Get(t.Context(), "team", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the namespace still exists: %v", err)
			}
			return p.gone(t.Context(), "team", "settings")
		})
	})
	p.stop()
	log, err := os.ReadFile(filepath.Join(dir, "logs", "etcd.log"))
	if err != nil || bytes.Contains(log, []byte("request stats")) {
		t.Errorf("etcd's log: %v\n%s\nwant nothing about single requests", err, log)
	}
}

// TestRestartOfAControlPlane proves that a second start on a directory has the data of the first.
func TestRestartOfAControlPlane(t *testing.T) {
	t.Parallel()
	takeServers(t, 1)
	dir := t.TempDir()
	first := runPlane(t, apiserver.Options{DataDir: dir})
	stored := first.configMap(t, metav1.NamespaceDefault, "kept")
	first.stop()
	second := runPlane(t, apiserver.Options{DataDir: dir})
	read, err := second.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil || read.UID != stored.UID {
		t.Errorf("after the restart: %v, UID %q; want UID %q", err, read.UID, stored.UID)
	}
}

// TestWatchesEndWithTheServer stops a server with a watch. The server does not wait until its clients lose interest.
// The API server by itself gives them a minute.
func TestWatchesEndWithTheServer(t *testing.T) {
	t.Parallel()
	takeServers(t, 1)
	p := runPlane(t, apiserver.Options{DataDir: t.TempDir()})
	watching, err := p.CoreV1().ConfigMaps(metav1.NamespaceAll).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	go p.stop()
	select {
	case <-p.Ended():
	case <-time.After(30 * time.Second):
		t.Error("the server still runs 30 s after it was stopped")
	}
}

// TestStopDuringStart stops a control plane before the hooks of its API server have run. A failed hook would end the
// process.
func TestStopDuringStart(t *testing.T) {
	t.Parallel()
	takeServers(t, 1)
	exit := klog.OsExit
	klog.OsExit = func(code int) { t.Errorf("the process ends with code %d", code) }
	t.Cleanup(func() { klog.OsExit = exit })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	progress := apiserver.Progress{Out: onWrite(func(line string) {
		if strings.Contains(line, "starting the API server") {
			stop()
		}
	})}
	_, err := apiserver.Start(ctx, apiserver.Options{DataDir: t.TempDir(), Listen: "127.0.0.1:0", Progress: progress})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the start ends with %v", err)
	}
}

// onWrite is called with each write.
type onWrite func(string)

func (f onWrite) Write(p []byte) (int, error) {
	f(string(p))
	return len(p), nil
}

// TestReadyzWaitsForChecks proves that /readyz waits for the given checks.
func TestReadyzWaitsForChecks(t *testing.T) {
	t.Parallel()
	takeServers(t, 1)
	var ready atomic.Bool
	check := healthz.NamedCheck("later", func(*http.Request) error {
		if !ready.Load() {
			return errors.New("not yet")
		}
		return nil
	})
	p := runPlane(t, apiserver.Options{DataDir: t.TempDir(), ReadyChecks: []healthz.HealthChecker{check}})
	readyz := func() (int, string) {
		var status int
		body, _ := p.Discovery().RESTClient().Get().AbsPath("/readyz").Do(t.Context()).StatusCode(&status).Raw()
		return status, string(body)
	}
	// The API server's own checks may take a while.
	eventually(t, func() error {
		if _, body := readyz(); strings.Count(body, "[-]") != 1 || !strings.Contains(body, "[-]later failed") {
			return fmt.Errorf("/readyz answers %s, want one failed check", body)
		}
		return nil
	})
	if status, body := readyz(); status != http.StatusInternalServerError {
		t.Errorf("before the check passes /readyz answers %d %s", status, body)
	}
	ready.Store(true)
	if status, body := readyz(); status != http.StatusOK {
		t.Errorf("once the check passes /readyz answers %d %s", status, body)
	}
}

// TestExternalEtcd proves that servers can use an existing etcd, and that etcd keeps out servers with other settings.
func TestExternalEtcd(t *testing.T) {
	t.Parallel()
	takeServers(t, 1)
	external := apiserver.ExternalEtcd{Servers: []string{etcd.Start(t)}}
	first := runPlane(t, apiserver.Options{DataDir: t.TempDir(), Etcd: external, Settings: "--first"})
	first.configMap(t, metav1.NamespaceDefault, "kept")

	_, err := apiserver.Start(t.Context(), apiserver.Options{DataDir: t.TempDir(), Listen: "127.0.0.1:0", Etcd: external, Settings: "--second"})
	if want := "etcd at " + external.Servers[0] + " is in use by another bursar standalone with --first, and this one has --second; "; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a second server says %v, want %q", err, want)
	}

	first.stop()
	said := &lines{}
	second := runPlane(t, apiserver.Options{DataDir: t.TempDir(), Etcd: external, Settings: "--second", Progress: apiserver.Progress{Out: said}})
	if strings.Contains(said.String(), "waiting") {
		t.Errorf("after the first server was stopped the second one had to wait:\n%s", said)
	}
	if second.gone(t.Context(), metav1.NamespaceDefault, "kept") == nil {
		t.Error("what the first server stored is gone")
	}

	etcd.RevokeLease(t, external.Servers[0], "/bursar/standalone")
	if err := second.Wait(); err == nil || !strings.Contains(err.Error(), "the hold on etcd at "+external.Servers[0]+" was lost") {
		t.Errorf("the server whose hold was taken away ended with %v", err)
	}
}

// lines is the output of a control plane.
type lines struct{ strings.Builder }
