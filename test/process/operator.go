package process

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// probeTimeout is how long an operator's answer to a probe is waited for.
const probeTimeout = 3 * time.Second

// Operator is a running `bursar operator`.
type Operator struct {
	*Command

	// Webhooks and Health are host:port of its webhooks, and of its probes and metrics.
	Webhooks, Health string
}

// OperatorOptions say how to run an operator.
type OperatorOptions struct {
	// Kubeconfig is the path of how it reaches the API server. What its user asks for is not asked about.
	Kubeconfig string
	// URL is where the API server finds its webhooks, if that is not where they are served.
	URL string
	// Configuration are more lines of its configuration.
	Configuration string
}

// StartOperator starts an operator, with short times for the election of a leader. It need not be ready
// yet.
func StartOperator(t testing.TB, options OperatorOptions) *Operator {
	t.Helper()
	binary, err := Build()
	if err != nil {
		t.Fatal(err)
	}
	o := &Operator{Webhooks: FreeAddress(t), Health: FreeAddress(t)}
	if options.URL == "" {
		_, port, _ := net.SplitHostPort(o.Webhooks) // as it was made
		options.URL = "https://localhost:" + port
	}
	configuration := filepath.Join(t.TempDir(), "config.yaml")
	content := fmt.Sprintf(`apiVersion: config.quota.miloapis.com/v1alpha1
kind: OperatorConfiguration
leaderElection: {leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 300ms}
webhooks: {bindAddress: %q, url: %q, shutdownDelay: 1s}
endpoints: {bindAddress: %q}
%s`, o.Webhooks, options.URL, o.Health, options.Configuration)
	if err := os.WriteFile(configuration, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Command = Run(t, "an operator", o.Ready, binary, "operator", "--config", configuration, "--kubeconfig", options.Kubeconfig)
	return o
}

// Ready asks the operator whether it is ready.
func (o *Operator) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+o.Health+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // nothing was read
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the operator answers %s", response.Status)
	}
	return nil
}
