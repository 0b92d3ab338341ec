// Package replica runs processes of the operator behind one address, for tests and benchmarks.
package replica

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/test/process"
)

// Options configure a replica.
type Options struct {
	// Binary is bursar or bursar-operator.
	Binary string
	// Dir is a directory of the replica's own, for its configuration and its log.
	Dir string
	// Kubeconfig says how it reaches its API server.
	Kubeconfig string
	// Configuration has the settings without a field here. The replica installs the CRDs.
	Configuration config.Operator
}

// Replica is one process of the operator.
type Replica struct {
	*backend
	command *exec.Cmd
	ended   chan struct{}
	log     string
	health  string
	forget  context.CancelFunc
}

// Start starts a replica behind a balancer. It is not ready yet; see [Replica.IsReady].
func Start(b *Balancer, o Options) (*Replica, error) {
	webhooks, err := process.FindFreeAddress()
	if err != nil {
		return nil, err
	}
	endpoints, err := process.FindFreeAddress()
	if err != nil {
		return nil, err
	}
	c := o.Configuration
	c.TypeMeta = metav1.TypeMeta{APIVersion: config.APIVersion, Kind: config.Kind}
	c.InstallCRDs = true
	c.Webhooks.BindAddress, c.Webhooks.URL = webhooks, b.URL()
	c.Endpoints.BindAddress = endpoints
	content, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("write the configuration of a replica: %w", err)
	}
	configuration := filepath.Join(o.Dir, "config.yaml")
	if err := os.WriteFile(configuration, content, 0o600); err != nil {
		return nil, err
	}
	r := &Replica{ended: make(chan struct{}), log: filepath.Join(o.Dir, "log"), health: endpoints}
	log, err := os.Create(r.log)
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the process has its own
	r.command = exec.Command(o.Binary, "operator", "--config", configuration, "--kubeconfig", o.Kubeconfig)
	r.command.Stdout, r.command.Stderr = log, log
	if err := r.command.Start(); err != nil {
		return nil, fmt.Errorf("start a replica: %w", err)
	}
	var ctx context.Context
	ctx, r.forget = context.WithCancel(context.Background())
	r.backend = b.add(ctx, webhooks, r.probe)
	go func() {
		_ = r.command.Wait()
		close(r.ended)
	}()
	return r, nil
}

// probe asks the process whether it is ready.
func (r *Replica) probe(ctx context.Context) (ready, answers bool) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.Endpoints()+"/readyz", nil)
	if err != nil {
		return false, false
	}
	response, err := client.Do(request)
	if err != nil {
		return false, false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK, true
}

// Signal sends the process a signal.
func (r *Replica) Signal(s syscall.Signal) { _ = r.command.Process.Signal(s) }

// Kill ends the process at once, if it has not ended, waits for its end, and takes it from the balancer.
func (r *Replica) Kill() {
	r.forget()
	r.Signal(syscall.SIGKILL)
	<-r.ended
}

// Exclude has the balancer send nothing to it any more, as after a deletion of its Pod. It takes effect once
// [Replica.IsReady] returns false.
func (r *Replica) Exclude() { r.forget() }

// Ended is closed at the end of the process.
func (r *Replica) Ended() <-chan struct{} { return r.ended }

// ExitCode is the exit code of the ended process.
func (r *Replica) ExitCode() int { return r.command.ProcessState.ExitCode() }

// Pid is the number of the process.
func (r *Replica) Pid() int { return r.command.Process.Pid }

// Log is the file with the output of the process.
func (r *Replica) Log() string { return r.log }

// Webhooks is where it answers reviews, as host:port.
func (r *Replica) Webhooks() string { return r.address }

// Endpoints is the URL of its health and its metrics.
func (r *Replica) Endpoints() string { return "http://" + r.health }
