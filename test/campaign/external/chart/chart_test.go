// Package chart renders the Helm chart as its users do, and checks the result.
package chart

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/test/controlplane"
	"github.com/bursar/bursar/test/helm"
	"github.com/bursar/bursar/test/quiet"
)

const (
	chart     = "../../../../deploy/chart/bursar"
	namespace = "quota"
)

func TestMain(m *testing.M) {
	quiet.Libraries()
	os.Exit(m.Run())
}

// run runs Helm, with values of its own.
func run(t *testing.T, values string, arguments ...string) (output string, err error) {
	t.Helper()
	// The test cache knows only the files read by the test itself, not those read by Helm.
	for _, folder := range []string{"chart", "crds", "rbac"} {
		err := filepath.WalkDir(filepath.Join("../../../../deploy", folder), func(_ string, _ fs.DirEntry, err error) error { return err })
		if err != nil {
			t.Fatal(err)
		}
	}
	return helm.Run(t, values, append([]string{"--namespace", namespace}, arguments...)...)
}

const everything = `
replicas: 2
image: {repository: registry.example.com/bursar, tag: v1.2.3}
imagePullSecrets: [{name: pull}]
configuration:
  consumerNamespaces: [{apiGroup: example.com, kind: Organization, namespace: 'organization-{{name}}'}]
  installCRDs: false
  leaderElection: {leaseDuration: 15s, renewDeadline: 12s, retryPeriod: 1s}
  logging: {format: text, verbosity: 3}
  requestNotifications: {url: 'https://tickets.example.com/bursar?from=bursar'}
notificationSecret: {name: tickets}
clientCertificates: {secretName: api-server, names: [front, back]}
certificate: {source: CertManager, issuerRef: {name: mine, kind: ClusterIssuer}}
follows: [{apiGroup: "", resources: [configmaps]}, {apiGroup: apps, resources: [deployments]}]
nodeSelector: {pool: system}
tolerations: [{key: system, operator: Exists}]
affinity: {nodeAffinity: {}}
priorityClassName: system-cluster-critical
podAnnotations: {a: b}
podLabels: {c: d}
networkPolicy: {enabled: true, webhookFrom: [{ipBlock: {cidr: 10.0.0.0/8}}], metricsFrom: [{namespaceSelector: {}}]}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
prometheusRule: {enabled: true}
console:
  enabled: true
  tls: {secretName: console-tls}
  url: https://quota.example.com
  oidc: {issuerURL: 'https://login.example.com', clientID: bursar, clientSecret: {name: oidc}, scopes: [email, groups]}
  impersonate: {enabled: true, users: [alice], groups: [web], groupsClaim: groups}
`

func TestLint(t *testing.T) {
	for name, values := range map[string]string{"defaults": "", "everything": everything} {
		if output, err := run(t, values, "lint", chart); err != nil {
			t.Errorf("%s: %v%s", name, err, output)
		}
	}
}

// TestValuesAreChecked proves that the chart reports a slip in the values instead of ignoring it.
func TestValuesAreChecked(t *testing.T) {
	for values, want := range map[string]string{
		"replicas: 0":                          "replicas",
		"replica: 3":                           "replica",
		"configuration: {systemNamespace: x}":  "systemNamespace",
		"certificate: {source: Vault}":         "source",
		"follows: [{resources: [configmaps]}]": "apiGroup",
		// Without the check, each of these would surface in Pods that do not come up.
		"configuration: {requestTimeout: 5}":                                      "requestTimeout",
		"configuration: {leaderElection: {retryPeriod: 2 s}}":                     "retryPeriod",
		"configuration: {logging: {verbosity: 11}}":                               "verbosity",
		"configuration: {consumerNamespaces: [{kind: A, namespace: a}]}":          "apiGroup",
		"configuration: {webhooks: {shutdownDelay: 50s}}":                         "shutdownDelay",
		"podDisruptionBudget: {maxUnavailable: 0}":                                "maxUnavailable",
		"podDisruptionBudget: {maxUnavailable: most}":                             "maxUnavailable",
		"configuration: {requestNotifications: {url: 'ftp://tickets'}}":           "requestNotifications",
		"configuration: {requestNotifications: {url: 'https://ann:pw@tickets'}}":  "requestNotifications",
		"configuration: {requestNotifications: {secretFile: /etc/bursar/secret}}": "requestNotifications",
		"notificationSecret: {name: tickets}":                                     "requestNotifications",
		"clientCertificates: {secretName: api-server, names: []}":                 "names",
		"configuration: {journal: {sink: Kafka}}":                                 "sink",
		"configuration: {journal: {sink: File}}":                                  "claimName",
		"configuration: {journal: {sink: S3, s3: {prefix: a}}}":                   "bucket",
		"journal: {claimName: journal}":                                           "journal",
		"journal: {secretName: bucket}":                                           "journal",
		"console: {enabled: true, url: 'http://quota.example.com'}":               "url",
		"console: {oidc: {issuerURL: 'https://login.example.com', clientID: a}}":  "url",
		"console: {impersonate: {enabled: true, users: [alice]}}":                 "issuerURL",
		"console: {impersonate: {enabled: true, groups: ['system:masters']}}":     "groups",
		// With a NetworkPolicy without the API server, the API server could create nothing protected by policies.
		"networkPolicy: {enabled: true}":          "webhookFrom",
		"networkPolicy: {podCIDRs: ['pods']}":     "podCIDRs",
		"networkPolicy: {podCIDRs: [10.244.0.0]}": "podCIDRs",
	} {
		if _, err := run(t, values, "template", "bursar", chart, "--kube-version", "1.36.0"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q to be refused", values, err, want)
		}
	}
}

// TestKubernetesVersion proves that the chart takes every tested version of Kubernetes, and those of vendors.
func TestKubernetesVersion(t *testing.T) {
	for name, tt := range map[string]struct{ version, rejected string }{
		"oldest":      {"1.32.0", ""},
		"newest":      {"1.37.2", ""},
		"of a vendor": {"v1.34.3-gke.100", ""},
		"too old":     {"1.31.0", "requires kubeVersion: >=1.32.0-0"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := run(t, "", "template", "bursar", chart, "--kube-version", tt.version)
			if (err == nil) != (tt.rejected == "") || err != nil && !strings.Contains(err.Error(), tt.rejected) {
				t.Errorf("got %v, want it to be rejected with %q", err, tt.rejected)
			}
		})
	}
}

// theirs are the kinds of other projects in the chart.
var theirs = []string{"Issuer", "Certificate", "ServiceMonitor", "PrometheusRule"}

// rendered returns the objects of the chart. Each of them has to satisfy its kind strictly.
func rendered(t *testing.T, values string) []client.Object {
	t.Helper()
	output, err := run(t, values, "template", "bursar", chart, "--kube-version", "1.36.0")
	if err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var objects []client.Object
	for reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(output))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		object, _, err := decoder.Decode(document, nil, nil)
		isTheirs := func(kind string) bool { return bytes.Contains(document, []byte("\nkind: "+kind+"\n")) }
		if runtime.IsNotRegisteredError(err) && slices.ContainsFunc(theirs, isTheirs) {
			continue
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if accessor, ok := object.(client.Object); ok {
			objects = append(objects, accessor)
		}
	}
}

// find returns the object of a type and name.
func find[T client.Object](t *testing.T, objects []client.Object, name string) T {
	t.Helper()
	for _, object := range objects {
		if found, ok := object.(T); ok && object.GetName() == name {
			return found
		}
	}
	var none T
	t.Fatalf("there is no %T %s", none, name)
	return none
}

// TestRendered renders the chart, and applies the kinds known to this project's API server.
func TestRendered(t *testing.T) {
	for name, values := range map[string]string{"defaults": "", "everything": everything} {
		t.Run(name, func(t *testing.T) {
			objects := rendered(t, values)
			path := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(path, []byte(find[*corev1.ConfigMap](t, objects, "bursar-config").Data["config.yaml"]), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := config.Load(path)
			if err != nil {
				t.Fatal(err)
			}
			if c.SystemNamespace != namespace || c.Webhooks.Service.Name != find[*corev1.Service](t, objects, "bursar-webhooks").Name {
				t.Errorf("the configuration is %+v", c)
			}
			pod := find[*appsv1.Deployment](t, objects, "bursar").Spec.Template.Spec
			if grace := float64(*pod.TerminationGracePeriodSeconds); grace <= c.Webhooks.ShutdownDelay.Seconds()+10 {
				t.Errorf("a Pod is killed after %v s, and answers for %s", grace, c.Webhooks.ShutdownDelay.Duration)
			}
			apply(t, objects)
		})
	}
}

// The file of the secret is in a volume of the Secret.
func TestNotificationSecret(t *testing.T) {
	objects := rendered(t, everything)
	config := find[*corev1.ConfigMap](t, objects, "bursar-config").Data["config.yaml"]
	if !strings.Contains(config, "secretFile: /etc/bursar-notifications/secret\n") {
		t.Errorf("the configuration has no file of a secret:\n%s", config)
	}
	wantMounted(t, objects, "tickets", "secret", "/etc/bursar-notifications")
}

// TestClientCertificates proves that replicas find the authority of the API servers' certificates.
func TestClientCertificates(t *testing.T) {
	objects := rendered(t, everything)
	config := find[*corev1.ConfigMap](t, objects, "bursar-config").Data["config.yaml"]
	if !strings.Contains(config, "caFile: /etc/bursar-callers/ca.crt\n    names:\n    - front\n    - back\n") {
		t.Errorf("the configuration accepts no client certificates:\n%s", config)
	}
	wantMounted(t, objects, "api-server", "ca.crt", "/etc/bursar-callers")
}

// wantMounted checks that a key of a Secret is a file of the operator, of the same name. It has to follow the Secret.
func wantMounted(t *testing.T, objects []client.Object, secret, key, folder string) {
	t.Helper()
	pod := find[*appsv1.Deployment](t, objects, "bursar").Spec.Template.Spec
	items := []corev1.KeyToPath{{Key: key, Path: key}}
	isMounted := slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
		return m.MountPath == folder && m.SubPath == "" && slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
			return v.Name == m.Name && v.Secret != nil && v.Secret.SecretName == secret && slices.Equal(v.Secret.Items, items)
		})
	})
	if !isMounted {
		t.Errorf("no volume has %s of the Secret %s: %+v in %+v", key, secret, pod.Containers[0].VolumeMounts, pod.Volumes)
	}
}

// The volume or the credentials of the journal arrive where the configuration has them.
func TestJournal(t *testing.T) {
	t.Run("File", func(t *testing.T) {
		objects := rendered(t, "configuration: {journal: {sink: File, file: {retention: 48h}}}\njournal: {claimName: shared}")
		config := find[*corev1.ConfigMap](t, objects, "bursar-config").Data["config.yaml"]
		if !strings.Contains(config, "directory: /var/lib/bursar-journal\n") || !strings.Contains(config, "retention: 48h\n") {
			t.Errorf("the configuration has no directory:\n%s", config)
		}
		pod := find[*appsv1.Deployment](t, objects, "bursar").Spec.Template.Spec
		isMounted := slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.MountPath == "/var/lib/bursar-journal" && !m.ReadOnly && slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
				return v.Name == m.Name && v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == "shared"
			})
		})
		if !isMounted || pod.SecurityContext.FSGroup == nil {
			t.Errorf("no volume that the replicas may write: %+v in %+v, group %v", pod.Containers[0].VolumeMounts, pod.Volumes, pod.SecurityContext.FSGroup)
		}
	})
	t.Run("S3", func(t *testing.T) {
		objects := rendered(t, "configuration: {journal: {sink: S3, s3: {bucket: quota}}}\njournal: {secretName: keys}\nserviceAccountAnnotations: {eks.amazonaws.com/role-arn: a}")
		var keys []string
		for _, variable := range find[*appsv1.Deployment](t, objects, "bursar").Spec.Template.Spec.Containers[0].Env {
			if from := variable.ValueFrom; from != nil && from.SecretKeyRef != nil && from.SecretKeyRef.Name == "keys" && from.SecretKeyRef.Key == variable.Name {
				keys = append(keys, variable.Name)
			}
		}
		if !slices.Equal(keys, []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}) {
			t.Errorf("the replicas have the keys %v", keys)
		}
		if got := find[*corev1.ServiceAccount](t, objects, "bursar").Annotations["eks.amazonaws.com/role-arn"]; got != "a" {
			t.Errorf("the ServiceAccount has the role %q", got)
		}
	})
}

// apply creates every object of a kind known to the API server.
func apply(t *testing.T, objects []client.Object) {
	t.Helper()
	plane := controlplane.Start(t)
	api, err := client.New(plane.Config(), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	var unknown []string
	for _, object := range objects {
		err := api.Create(t.Context(), object)
		switch {
		case apimeta.IsNoMatchError(err):
			unknown = append(unknown, object.GetObjectKind().GroupVersionKind().Kind)
		case apierrors.IsAlreadyExists(err):
			t.Errorf("%T %s is there twice", object, object.GetName())
		case err != nil:
			t.Errorf("create %T %s: %v", object, object.GetName(), err)
		}
	}
	t.Logf("not served here, and checked by their types alone: %v", unknown)
}
