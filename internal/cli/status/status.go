// Package status reports on one page whether a server or a cluster enforces quota as it should. Commands
// and the console import it.
package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/internal/usage"
)

const (
	// requestTimeout bounds each request.
	requestTimeout = 10 * time.Second
	// renewWithin is the remaining lifetime below which the renewal of a certificate is overdue.
	renewWithin = 7 * 24 * time.Hour
	// adviceDown is what to do while no replica answers.
	adviceDown = "check the Pods of Bursar and their logs, as in docs/tasks/troubleshooting.md; " +
		"in an emergency, docs/tasks/break-the-glass.md lets single requests pass"
)

// State is the result of a check.
type State string

// The states of a check. Warning means that Bursar works, and somebody should look; Unknown means that the check could
// not run.
const (
	OK      State = "ok"
	Warning State = "warning"
	Failed  State = "FAILED"
	Unknown State = "unknown"
)

// Check is one line of a report.
type Check struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Text has details, and Details the reasons, a line each.
	Text    string   `json:"text"`
	Details []string `json:"details,omitempty"`
}

// fail fails the check for a reason.
func (c *Check) fail(reason string) {
	c.State = Failed
	c.Details = append(c.Details, reason)
}

// warn adds a reason to look at something, to a check that may have failed already.
func (c *Check) warn(reason string) {
	if c.State == OK {
		c.State = Warning
	}
	c.Details = append(c.Details, reason)
}

// Report is the checks of a page, in order.
type Report []Check

// Failed returns how many checks have failed.
func (r Report) Failed() int {
	failed := 0
	for _, check := range r {
		if check.State == Failed {
			failed++
		}
	}
	return failed
}

// Print prints the page, or the checks in a format.
func (r Report) Print(out io.Writer, format usage.Format) error {
	if format != "" {
		return usage.Encode(out, struct {
			Items []Check `json:"items"`
		}{r}, format)
	}
	var page strings.Builder
	for _, check := range r {
		fmt.Fprintf(&page, "%-12s %-8s %s\n", check.Name, check.State, check.Text)
		for _, detail := range check.Details {
			fmt.Fprintf(&page, "%22s%s\n", "", detail)
		}
	}
	_, err := io.WriteString(out, page.String())
	return err
}

// reader reads the data of a report.
type reader struct {
	client                             kubernetes.Interface
	objects                            client.Client
	systemNamespace, certificateSecret string
	isStandalone                       bool
	// metrics are nil after a failed read; metricsErr is the reason.
	metrics    *metrics
	metricsErr error
	webhooks   *admissionregistrationv1.ValidatingWebhookConfiguration
}

// IsStandalone reports whether the version of an API server is a standalone Bursar's.
func IsStandalone(gitVersion string) bool { return strings.Contains(gitVersion, "+bursar.") }

// Read makes a report. An error means that the API server does not answer.
func Read(ctx context.Context, config *rest.Config, systemNamespace, certificateSecret string) (Report, error) {
	config = rest.CopyConfig(config)
	config.Timeout = requestTimeout
	config.WarningHandler = rest.NoWarnings{} // about the tried requests
	r := &reader{systemNamespace: systemNamespace, certificateSecret: certificateSecret}
	var err error
	if r.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	version, err := r.client.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("ask the API server at %s for its version: %w", config.Host, err)
	}
	r.isStandalone = IsStandalone(version.GitVersion)
	types := runtime.NewScheme()
	if err := quotav1alpha1.AddToScheme(types); err != nil {
		return nil, fmt.Errorf("register the API types: %w", err)
	}
	if r.objects, err = client.New(config, client.Options{Scheme: types}); err != nil {
		return nil, fmt.Errorf("reach the API server at %s: %w", config.Host, err)
	}
	r.metrics, r.metricsErr = r.readMetrics(ctx)
	report := Report{r.server(ctx, config.Host, version.GitVersion)}
	for _, check := range []func(context.Context) Check{r.webhookCheck, r.certificate, r.leader, r.declared, r.claimPolicies, r.grantPolicies, r.lag, r.ledgers, r.journal} {
		report = append(report, check(ctx))
	}
	return report, nil
}

func unknown(name string, err error) Check {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	switch {
	case apierrors.IsForbidden(err):
		text = "you may not see it: " + text
	case apimeta.IsNoMatchError(err):
		text = "the API server serves no quota: install Bursar there"
	}
	return Check{Name: name, State: Unknown, Text: text}
}

// server checks whether the API server is ready. A standalone one is ready once it enforces quota.
func (r *reader) server(ctx context.Context, host, version string) Check {
	kind := "Kubernetes"
	if r.isStandalone {
		kind = "standalone server"
	}
	check := Check{Name: "server", State: OK, Text: fmt.Sprintf("%s %s at %s", kind, version, host)}
	var status int
	body, err := r.client.Discovery().RESTClient().Get().AbsPath("/readyz").Param("verbose", "").Do(ctx).StatusCode(&status).Raw()
	if err == nil {
		return check
	}
	check.State = Failed
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, "[-]") {
			check.Details = append(check.Details, strings.TrimSpace(line))
		}
	}
	if len(check.Details) == 0 {
		check.Details = []string{err.Error()}
	}
	return check
}

// webhookCheck checks whether the API server calls Bursar.
func (r *reader) webhookCheck(ctx context.Context) Check {
	const name, configuration = "webhooks", "bursar"
	api := r.client.AdmissionregistrationV1()
	stored, err := api.ValidatingWebhookConfigurations().Get(ctx, configuration, metav1.GetOptions{})
	var mutating *admissionregistrationv1.MutatingWebhookConfiguration
	if err == nil {
		r.webhooks = stored
		mutating, err = api.MutatingWebhookConfigurations().Get(ctx, configuration, metav1.GetOptions{})
	}
	switch {
	case apierrors.IsNotFound(err):
		return Check{Name: name, State: Failed, Text: "not installed, so nothing is enforced; the operator installs them when it starts"}
	case err != nil:
		return unknown(name, err)
	}
	if err := r.tryWebhooks(ctx); err != nil {
		return Check{
			Name: name, State: Failed, Text: "the API server does not reach them, so nobody can create protected objects",
			Details: []string{message.WithoutURLs(err.Error()), adviceDown},
		}
	}
	rules := 0
	for _, webhook := range stored.Webhooks {
		rules += len(webhook.Rules)
	}
	check := Check{Name: name, State: OK, Text: fmt.Sprintf("%d validating with %d rules, %d mutating", len(stored.Webhooks), rules, len(mutating.Webhooks))}
	if shared := r.sharedUser(); shared != "" {
		check.State, check.Details = Warning, []string{shared}
	}
	return check
}

// tryWebhooks makes the API server call the webhooks, by a dry-run create of a grant. The error means that the API
// server cannot reach them.
func (r *reader) tryWebhooks(ctx context.Context) error {
	err := r.objects.Create(ctx, &quotav1alpha1.ResourceGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.systemNamespace, GenerateName: "status-"},
		Spec: quotav1alpha1.ResourceGrantSpec{
			ConsumerRef: quotav1alpha1.ConsumerRef{Kind: "Namespace", Name: r.systemNamespace},
			Allowances:  []quotav1alpha1.Allowance{{ResourceType: "status", Buckets: []quotav1alpha1.Bucket{{Amount: 1}}}},
		},
	}, client.DryRunAll)
	if err != nil && strings.Contains(err.Error(), "failed calling webhook") {
		return err
	}
	return nil // any other answer passed the webhooks, or came from a missing permission to create grants
}

// certificate checks the expiry of the webhook certificate.
func (r *reader) certificate(ctx context.Context) Check {
	const name = "certificate"
	var end float64
	if r.metrics != nil {
		end = r.metrics.sums["bursar_webhook_certificate_expiry_timestamp_seconds"]
	}
	until := time.Unix(int64(end), 0)
	if end == 0 && r.isStandalone {
		return Check{Name: name, State: OK, Text: "none is needed: this server calls its webhooks in memory"}
	}
	if end == 0 {
		secret, err := r.client.CoreV1().Secrets(r.systemNamespace).Get(ctx, r.certificateSecret, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			err = fmt.Errorf("%w; if the configuration names another Secret, give its name with --certificate-secret", err)
		}
		if err != nil {
			return unknown(name, errors.Join(err, r.metricsErr))
		}
		certificates, err := certutil.ParseCertsPEM(secret.Data[corev1.TLSCertKey])
		if err != nil {
			return Check{Name: name, State: Failed, Text: fmt.Sprintf("Secret %s/%s holds no certificate: %v", r.systemNamespace, r.certificateSecret, err)}
		}
		until = certificates[0].NotAfter
	}
	check := Check{Name: name, State: OK, Text: "valid until " + until.UTC().Format(time.RFC3339)}
	if time.Until(until) < renewWithin {
		check.State = Failed
		check.Text += ", and has not been renewed"
	}
	return check
}

// leader checks whether a replica runs the controllers, by this machine's clock.
func (r *reader) leader(ctx context.Context) Check {
	const name, replicas = "leader", quotav1alpha1.GroupName + "/replica"
	lease, err := r.client.CoordinationV1().Leases(r.systemNamespace).Get(ctx, naming.LeaderLease, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return Check{Name: name, State: Failed, Text: fmt.Sprintf("no operator has led: namespace %s holds no Lease %s", r.systemNamespace, naming.LeaderLease)}
	case err != nil:
		return unknown(name, err)
	}
	holder, renewed := ptr.Deref(lease.Spec.HolderIdentity, ""), ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{})
	others, err := r.client.CoordinationV1().Leases(r.systemNamespace).List(ctx, metav1.ListOptions{LabelSelector: replicas})
	if err != nil {
		return unknown(name, err)
	}
	switch {
	case holder == "" && r.isStandalone && len(others.Items) == 0:
		return Check{Name: name, State: OK, Text: "this server, the only one"}
	case holder == "":
		return Check{Name: name, State: Failed, Text: "none: the last leader has stepped down, and no replica has taken over"}
	}
	live := slices.DeleteFunc(others.Items, func(lease coordinationv1.Lease) bool { return isStale(&lease) })
	age := time.Since(renewed.Time).Round(time.Second)
	check := Check{Name: name, State: OK, Text: fmt.Sprintf("%s, renewed %s ago; replicas: %d", holder, max(age, 0), len(live))}
	switch {
	case isStale(lease):
		check.fail("no replica has taken over: check the Pods of Bursar and their logs")
	case len(live) == 0 && !r.isStandalone: // a standalone server is a replica, and needs a Lease only for others
		check.fail("no replica has renewed its Lease, so none answers: " + adviceDown)
	}
	return check
}

// isStale reports whether a Lease lacks a renewal for twice its duration, by this machine's clock.
func isStale(lease *coordinationv1.Lease) bool {
	lasts := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 15)) * time.Second
	return time.Since(ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time) > 2*lasts
}
