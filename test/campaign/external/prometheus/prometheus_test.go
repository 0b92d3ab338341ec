package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/process"
	"github.com/bursar/bursar/test/quiet"
)

// soon is longer than anything takes on a busy machine.
const soon = 2 * time.Minute

// TestPrometheus has a Prometheus scrape a server, with the chart's alerts, until these fire and clear, and sends it
// the queries of the dashboard. Only the durations in the rules are others.
func TestPrometheus(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds Prometheus")
	}
	quiet.Libraries()
	server := process.Start(t, t.TempDir())
	w := &world{T: t, api: newClient(t, server.Config()), address: process.FreeAddress(t)}
	w.start(server.Config())
	platform.DeclareMaps(t, w.api, 10)
	platform.ProtectMaps(t, w.api, "ConfigMap")

	w.create(0, 8)
	w.fires("QuotaNearLimit")
	w.create(8, 10)
	w.fires("QuotaNearLimit", "QuotaReached")
	if err := w.api.Create(t.Context(), platform.Map(10)); !platform.IsExceeded(err) {
		t.Fatalf("got %v, want it to be refused", err)
	}
	claim := waitingClaim()
	if err := w.api.Create(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	w.fires("QuotaClaimsWaiting", "QuotaNearLimit", "QuotaReached")
	t.Run("Dashboard", w.testDashboard)
	if err := w.api.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	w.limit(9)
	w.fires("QuotaNearLimit", "QuotaExceeded")
	for n := range 8 {
		if err := w.api.Delete(t.Context(), platform.Map(n)); err != nil {
			t.Fatal(err)
		}
	}
	w.fires()
}

type world struct {
	*testing.T
	api client.Client
	// address is where Prometheus answers.
	address string
}

func newClient(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	types := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(types), apiextensionsv1.AddToScheme(types), quotav1alpha1.AddToScheme(types)); err != nil {
		t.Fatal(err)
	}
	api, err := client.New(config, client.Options{Scheme: types})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

var duration = regexp.MustCompile(`(for|keep_firing_for): [0-9]+m`)

// start starts Prometheus. It scrapes an API server.
func (w *world) start(api *rest.Config) {
	w.Helper()
	dir := w.TempDir()
	content, err := os.ReadFile(quotaRules)
	if err != nil {
		w.Fatal(err)
	}
	write(w.T, filepath.Join(dir, "rules.yaml"), duration.ReplaceAll(content, []byte("$1: 2s")))
	if err := rest.LoadTLSFiles(api); err != nil {
		w.Fatal(err)
	}
	for name, data := range map[string][]byte{"ca.crt": api.CAData, "tls.crt": api.CertData, "tls.key": api.KeyData} {
		write(w.T, filepath.Join(dir, name), data)
	}
	host, err := url.Parse(api.Host)
	if err != nil {
		w.Fatal(err)
	}
	write(w.T, filepath.Join(dir, "prometheus.yaml"), fmt.Appendf(nil, `
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [rules.yaml]
scrape_configs:
- job_name: bursar-metrics
  scheme: https
  tls_config: {ca_file: ca.crt, cert_file: tls.crt, key_file: tls.key}
  static_configs: [{targets: ['%s']}]
`, host.Host))
	binary, err := program("prometheus")
	if err != nil {
		w.Fatal(err)
	}
	process.Run(w.T, "prometheus", func(ctx context.Context) error { return w.get(ctx, "/-/ready", nil, nil) }, binary,
		"--config.file", filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", w.address).WaitReady()
}

// get asks Prometheus for something, and decodes the answer unless into is nil.
func (w *world) get(ctx context.Context, path string, query url.Values, into any) error {
	address := url.URL{Scheme: "http", Host: w.address, Path: path, RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it is only read
	if into == nil {
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	}
	return json.NewDecoder(response.Body).Decode(into)
}

// create creates the maps of these numbers, up to and without the last.
func (w *world) create(first, last int) {
	w.Helper()
	for n := first; n < last; n++ {
		if err := w.api.Create(w.Context(), platform.Map(n)); err != nil {
			w.Fatal(err)
		}
	}
}

// waitingClaim is a claim without room.
func waitingClaim() *quotav1alpha1.ResourceClaim {
	object := quotav1alpha1.UnversionedObjectReference{Kind: "Secret", Name: "later", Namespace: corev1.NamespaceDefault}
	return &quotav1alpha1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name},
		Spec: quotav1alpha1.ResourceClaimSpec{
			ConsumerRef: platform.Consumer("acme"), ResourceRef: object,
			Requests: []quotav1alpha1.ResourceRequest{{ResourceType: platform.Group + "/maps", Amount: 5}},
		},
	}
}

// limit sets the grant of Organization acme.
func (w *world) limit(amount int64) {
	w.Helper()
	grant := &quotav1alpha1.ResourceGrant{}
	if err := w.api.Get(w.Context(), client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: "acme"}, grant); err != nil {
		w.Fatal(err)
	}
	before := grant.DeepCopy()
	grant.Spec.Allowances[0].Buckets[0].Amount = amount
	if err := w.api.Patch(w.Context(), grant, client.MergeFrom(before)); err != nil {
		w.Fatal(err)
	}
}

// fires waits until these alerts fire for Organization acme, and no others.
func (w *world) fires(want ...string) {
	w.Helper()
	slices.Sort(want)
	await.NoError(w.T, soon, func() error {
		var answer struct {
			Data struct {
				Alerts []struct {
					Labels map[string]string `json:"labels"`
					State  string            `json:"state"`
				} `json:"alerts"`
			} `json:"data"`
		}
		if err := w.get(w.Context(), "/api/v1/alerts", nil, &answer); err != nil {
			return err
		}
		got := []string{}
		for _, alert := range answer.Data.Alerts {
			if alert.State == "firing" && alert.Labels["consumer_name"] == "acme" {
				got = append(got, alert.Labels["alertname"])
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("%v fire, want %v", got, want)
		}
		return nil
	})
}

// variables are the values put into queries by Grafana.
var variables = strings.NewReplacer("$__rate_interval", "1m", "$resource_type", ".*", "$kind", ".*", "$consumer", ".*")

var (
	metricName = regexp.MustCompile(`\b(bursar|quota)_[a-z_]+`)
	labelList  = regexp.MustCompile(`^label_values\((.*), ([a-z_]+)\)$`)
)

// testDashboard sends every query of the dashboard to Prometheus. Prometheus understands each, and each uses existing
// metrics. Each has an answer, except for queries about events that do not happen here.
func (w *world) testDashboard(t *testing.T) {
	content, err := os.ReadFile("../../../../deploy/grafana/bursar.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
		Templating struct {
			List []struct {
				Name       string `json:"name"`
				Definition string `json:"definition"`
			} `json:"list"`
		} `json:"templating"`
	}
	if err := json.Unmarshal(content, &dashboard); err != nil {
		t.Fatal(err)
	}
	queries := map[string][]string{}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries[panel.Title] = append(queries[panel.Title], target.Expr)
		}
	}
	for _, variable := range dashboard.Templating.List {
		if variable.Definition == "" {
			continue
		}
		parts := labelList.FindStringSubmatch(variable.Definition)
		if parts == nil {
			t.Fatalf("variable %s: what is %q?", variable.Name, variable.Definition)
		}
		queries["variable "+variable.Name] = []string{fmt.Sprintf("count by (%s) (%s)", parts[2], parts[1])}
	}
	if len(queries) < 20 {
		t.Errorf("the dashboard has %d panels", len(queries))
	}
	w.capSecrets(t)
	var names struct {
		Data []string `json:"data"`
	}
	await.NoError(t, soon, func() error {
		if err := w.get(t.Context(), "/api/v1/label/__name__/values", nil, &names); err != nil {
			return err
		}
		for _, name := range []string{"bursar_admission_decisions_total", "bursar_allocation_hard", "bursar_allocation_unlimited_namespaces"} {
			if !slices.Contains(names.Data, name) {
				return fmt.Errorf("nothing is known of %s yet", name)
			}
		}
		return nil
	})
	// The one has series once a policy lets something pass, the other where a QuotaServiceConfig defines quotas.
	never := []string{"bursar_admission_not_enforced_total", "bursar_quotaincrease_namespaces"}
	for title, all := range queries {
		for _, query := range all {
			isNever := false
			for _, name := range metricName.FindAllString(query, -1) {
				isNever = isNever || slices.Contains(never, name)
				if !slices.Contains(names.Data, name) && !slices.Contains(never, name) {
					t.Errorf("panel %q: there is no metric %s", title, name)
				}
			}
			await.NoError(t, soon, func() error {
				var answer struct {
					Status string `json:"status"`
					Error  string `json:"error"`
					Data   struct {
						Result []any `json:"result"`
					} `json:"data"`
				}
				if err := w.get(t.Context(), "/api/v1/query", url.Values{"query": {variables.Replace(query)}}, &answer); err != nil {
					return err
				}
				if answer.Status != "success" || len(answer.Data.Result) == 0 && !isNever {
					return fmt.Errorf("panel %q: %s is answered by %q %q and %d series", title, query, answer.Status, answer.Error, len(answer.Data.Result))
				}
				return nil
			})
		}
	}
}

// capSecrets caps the ResourceQuotas of a namespace without any.
func (w *world) capSecrets(t *testing.T) {
	t.Helper()
	allocation := &quotav1alpha1.ResourceQuotaAllocation{
		ObjectMeta: metav1.ObjectMeta{Name: "secrets"},
		Spec: quotav1alpha1.ResourceQuotaAllocationSpec{
			Selector:   metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: corev1.NamespaceDefault}},
			Allocation: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/secrets": resource.MustParse("10")}},
		},
	}
	if err := w.api.Create(t.Context(), allocation); err != nil {
		t.Fatal(err)
	}
}
