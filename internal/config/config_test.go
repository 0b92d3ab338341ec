package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const head = "apiVersion: " + APIVersion + "\nkind: " + Kind + "\n"

// load loads a configuration.
func load(t *testing.T, content string) (*Operator, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(path)
}

func TestDefaults(t *testing.T) {
	none, err := Load("")
	if err != nil {
		t.Fatal(err)
	}
	empty, err := load(t, head)
	if err != nil {
		t.Fatal(err)
	}
	empty.TypeMeta = metav1.TypeMeta{}
	if diff := cmp.Diff(none, empty, cmpopts.EquateComparable(Duration{})); diff != "" {
		t.Errorf("a file that says nothing is not like none (-none +file):\n%s", diff)
	}
	if none.Webhooks.Service == nil || none.Webhooks.Service.Port != 443 || none.LeaderElection.LeaseDuration.Duration != 15*time.Second || none.Webhooks.ShutdownDelay.Duration != 10*time.Second {
		t.Errorf("the defaults are %+v", none)
	}
}

func TestGiven(t *testing.T) {
	c, err := load(t, head+`
systemNamespace: quota
consumerNamespaces:
- {apiGroup: example.com, kind: Organization, namespace: 'organization-{{name}}'}
leaderElection: {leaseDuration: 4s, renewDeadline: 3s, retryPeriod: 500ms}
webhooks: {url: 'https://127.0.0.1:9443', shutdownDelay: 0s, certificate: {source: Secret, secretName: mine}}
endpoints: {profilingBindAddress: '127.0.0.1:6060'}
logging: {format: text, verbosity: 2}
requestNotifications: {url: 'https://tickets.example.com/bursar', secretFile: /etc/bursar-notifications/secret}
`)
	if err != nil {
		t.Fatal(err)
	}
	if c.Webhooks.Service != nil || c.Webhooks.ShutdownDelay.Duration != 0 || c.LeaderElection.RetryPeriod.Duration != 500*time.Millisecond {
		t.Errorf("got %+v", c)
	}
	for kind, namespace := range c.Namespaces() {
		if kind.String() != "Organization.example.com" || namespace != "organization-{{name}}" {
			t.Errorf("got %s in %s", kind, namespace)
		}
	}
}

func TestRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, content, want string
	}{
		"not YAML":      {"", head + "a: [", "cannot be read"},
		"another kind":  {"somebody took the wrong file", "apiVersion: v1\nkind: Pod\n", `must begin with apiVersion: config.quota.miloapis.com/v1alpha1`},
		"unknown field": {"a slip must not be a default", head + "systemNamspace: x", "systemNamspace: Forbidden: there is no such field"},
		"twice":         {"", head + "systemNamespace: a\nsystemNamespace: b", "already set"},
		"namespace":     {"", head + "systemNamespace: A", "systemNamespace"},
		"who may call":  {"the authority signs for others, too", head + "webhooks: {clientCertificates: {caFile: /etc/ca.pem}}", "webhooks.clientCertificates.names"},
		"consumers": {"", head + "consumerNamespaces: [{apiGroup: b, kind: A, namespace: 'x'}, {apiGroup: b, kind: A, namespace: 'y'}, {namespace: '-'}]",
			"consumerNamespaces[1]: Duplicate value"},
		"consumers of no group": {"such an entry could never match", head + "consumerNamespaces: [{kind: Namespace, namespace: '{{name}}'}]",
			"consumerNamespaces[0].apiGroup: Required value: name the API group of the consumers: the core group has none"},
		"another variable": {"the only one has a name", head + "consumerNamespaces: [{apiGroup: b, kind: A, namespace: 'x-{{nam}}'}]",
			`consumerNamespaces[0].namespace: Invalid value: "x-{{nam}}": has a variable besides {{name}}`},
		"lease":                {"the leader would be replaced while it leads", head + "leaderElection: {leaseDuration: 10s}", "leaderElection.leaseDuration"},
		"renewal":              {"", head + "leaderElection: {renewDeadline: 2s}", "leaderElection.renewDeadline"},
		"both":                 {"", head + "webhooks: {url: 'https://a', service: {name: b}}", "either a service or a url"},
		"plain HTTP":           {"the API server calls by TLS alone", head + "webhooks: {url: 'http://a:1'}", "webhooks.url"},
		"URL path":             {"", head + "webhooks: {url: 'https://a:1/b'}", "webhooks.url"},
		"source":               {"", head + "webhooks: {certificate: {source: Vault}}", `supported values: "Bursar", "Secret"`},
		"address":              {"", head + "endpoints: {bindAddress: '8080'}", "endpoints.bindAddress"},
		"verbosity":            {"", head + "logging: {verbosity: 11}", "logging.verbosity"},
		"format":               {"", head + "logging: {format: xml}", "logging.format"},
		"consumers of metrics": {"", head + "metrics: {consumersMax: -1}", "metrics.consumersMax"},
		"threshold":            {"", head + "metrics: {alertThresholdPercent: 101}", "metrics.alertThresholdPercent"},
		"lowest threshold":     {"", head + "metrics: {consumerThresholds: {minPercent: -1}}", "metrics.consumerThresholds.minPercent: Invalid value: -1: must be from 1 to 100"},
		"highest threshold":    {"", head + "metrics: {consumerThresholds: {maxPercent: 101}}", "metrics.consumerThresholds.maxPercent: Invalid value: 101: must be from 1 to 100"},
		"no threshold between": {"no percentage would be allowed", head + "metrics: {consumerThresholds: {minPercent: 60, maxPercent: 50}}", "metrics.consumerThresholds.maxPercent: Invalid value: 50: must be at least the lowest percentage, 60"},
		"advice":               {"", head + "exceededAdvice: " + strings.Repeat("a", 501), "exceededAdvice: Too long"},
		"object size":          {"", head + "maxObjectBytes: 1024", "maxObjectBytes: Invalid value: 1024: must be at least 1572864"},
		"request timeout":      {"", head + "requestTimeout: 0.5s", "requestTimeout: Invalid value: \"500ms\": must be at least 1s"},
		"long requests":        {"a raise would be forgotten while it is pending", head + "requestTimeout: 3m", "requestTimeout: Invalid value: \"3m0s\": must be at most 2m0s"},
		"interval":             {"", head + "requestTimeout: 1ms", "requestTimeout"},
		"duration":             {"", head + "requestTimeout: soon", `requestTimeout: Invalid value: "soon": must be a duration with a unit`},
		"number":               {"a number has no unit", head + "leaderElection: {leaseDuration: 15}", "leaderElection.leaseDuration: Invalid value: 15: must be a duration with a unit"},
		"notifications":        {"", head + "requestNotifications: {url: 'ftp://tickets.example.com'}", "requestNotifications.url: Invalid value: must be of the form"},
		"no host":              {"", head + "requestNotifications: {url: 'https:///bursar'}", "requestNotifications.url: Invalid value: must be of the form"},
		"password":             {"a URL is printed, a secret is not", head + "requestNotifications: {url: 'https://ann:pw@tickets.example.com'}", "requestNotifications.url: Invalid value: must not have a user"},
		"secret for nobody":    {"", head + "requestNotifications: {secretFile: /etc/secret}", "requestNotifications.url: Required value"},
		"journal":              {"", head + "journal: {sink: Kafka}", `journal.sink: Unsupported value: "Kafka": supported values: "None", "File", "S3", "Stdout"`},
		"journal nowhere":      {"files need a volume, which nobody can guess", head + "journal: {sink: File}", "journal.file.directory: Required value"},
		"relative journal":     {"", head + "journal: {sink: File, file: {directory: journal}}", "journal.file.directory: Invalid value: \"journal\": must be an absolute path"},
		"short retention":      {"younger files of other replicas may still be written", head + "journal: {sink: File, file: {directory: /j, retention: 1h}}", "journal.file.retention: Invalid value: \"1h0m0s\": must be at least 24h"},
		"small file":           {"", head + "journal: {sink: File, file: {directory: /j, maxFileBytes: 1}}", "journal.file.maxFileBytes: Invalid value: 1: must be at least 1048576"},
		"small journal":        {"", head + "journal: {sink: File, file: {directory: /j, maxBytes: 1048576}}", "journal.file.maxBytes: Invalid value: 1048576: must be at least the size of one file, 67108864"},
		"no sink":              {"a person who describes files wants them", head + "journal: {file: {directory: /j}}", "journal.file: Forbidden: it has no effect with the sink None"},
		"other sink":           {"", head + "journal: {sink: Stdout, s3: {bucket: abc}}", "journal.s3: Forbidden: it has no effect with the sink Stdout"},
		"no bucket":            {"", head + "journal: {sink: S3}", "journal.s3.bucket: Required value"},
		"bucket":               {"", head + "journal: {sink: S3, s3: {bucket: A}}", "journal.s3.bucket: Invalid value: \"A\": cannot be the name of a bucket"},
		"endpoint":             {"", head + "journal: {sink: S3, s3: {bucket: abc, endpoint: 'https://minio:9000'}}", "journal.s3.endpoint: Invalid value: \"https://minio:9000\": must be of the form host or host:port"},
		"prefix":               {"", head + "journal: {sink: S3, s3: {bucket: abc, prefix: /a}}", "journal.s3.prefix: Invalid value"},
		"type":                 {"", head + "metrics: {consumersMax: many}", `metrics.consumersMax: Invalid value: "string": must be of type int`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := load(t, tc.content); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got %v, want %q", tc.reason, err, tc.want)
			}
		})
	}
	t.Run("all at once", func(t *testing.T) {
		_, err := load(t, head+"leaderElection: {leaseDuration: 15}\nlogging: {format: xml, verbosty: 1}\nrequestTimeout: soon")
		for _, want := range []string{"leaderElection.leaseDuration", "logging.format", "logging.verbosty", "requestTimeout"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("a person mends a file in one go: got %v, want it to name %s", err, want)
			}
		}
	})
	if _, err := Load(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "read the configuration") {
		t.Errorf("got %v, want it to say that there is no file", err)
	}
}
