package remote_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/controller/grantpolicy/remote"
)

func TestRead(t *testing.T) {
	const group, kind, name = quotav1alpha1.LabelControlPlaneGroup, quotav1alpha1.LabelControlPlaneKind, quotav1alpha1.LabelControlPlaneName
	long := strings.Repeat("x", 100)
	for test, tc := range map[string]struct {
		reason string
		secret corev1.Secret
		want   *remote.ControlPlane
	}{
		"labels": {
			reason: "three labels name the object that stands for the control plane",
			secret: corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "any", Labels: map[string]string{group: "example.com", kind: "Organization", name: "acme"}},
				Data:       map[string][]byte{"kubeconfig": []byte("k"), "value": []byte("v")},
			},
			want: &remote.ControlPlane{Ref: remote.Ref{Group: "example.com", Kind: "Organization", Name: "acme"}, Kubeconfig: []byte("k")},
		},
		"value": {
			reason: "the key that Cluster API uses will do, and the core group is empty",
			secret: corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "any", Labels: map[string]string{kind: "Namespace", name: "acme"}},
				Data:       map[string][]byte{"value": []byte("v")},
			},
			want: &remote.ControlPlane{Ref: remote.Ref{Kind: "Namespace", Name: "acme"}, Kubeconfig: []byte("v")},
		},
		"annotation": {
			reason: "names can be longer than labels",
			secret: corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Name: "any", Labels: map[string]string{kind: "Organization"}, Annotations: map[string]string{name: long},
			}},
			want: &remote.ControlPlane{Ref: remote.Ref{Kind: "Organization", Name: long}},
		},
		"Cluster API": {
			reason: "as Cluster API makes it",
			secret: corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "west-kubeconfig", Labels: map[string]string{"cluster.x-k8s.io/cluster-name": "west"}},
				Data:       map[string][]byte{"value": []byte("v"), "kubeconfig": []byte("k")},
			},
			want: &remote.ControlPlane{Ref: remote.Ref{Group: "cluster.x-k8s.io", Kind: "Cluster", Name: "west"}, Kubeconfig: []byte("v")},
		},
		"another Secret of the Cluster": {
			reason: "its certificates register nothing",
			secret: corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "west-ca", Labels: map[string]string{"cluster.x-k8s.io/cluster-name": "west"}}},
		},
		"unrelated": {
			reason: "nor does any other Secret, whatever its name",
			secret: corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "west-kubeconfig"}, Data: map[string][]byte{"value": []byte("v")}},
		},
		"half": {
			reason: "a kind without a name is none",
			secret: corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{group: "example.com", kind: "Organization"}}},
		},
	} {
		t.Run(test, func(t *testing.T) {
			got, ok := remote.Read(&tc.secret)
			if ok != (tc.want != nil) {
				t.Fatalf("%s: got %+v, %t", tc.reason, got, ok)
			}
			if tc.want != nil {
				if diff := cmp.Diff(*tc.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
				}
			}
		})
	}
}

func TestConfig(t *testing.T) {
	const usual = "    token: secret"
	kubeconfig := func(cluster, user string) string {
		return `apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: c, user: u}}, {name: other, context: {cluster: c, user: other}}]
clusters:
- name: c
  cluster:
    server: https://example.com:6443
` + cluster + `
users:
- name: other
  user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: not-used, interactiveMode: Never}}
- name: u
  user:
` + user + "\n"
	}
	for test, tc := range map[string]struct {
		reason     string
		kubeconfig string
		wantErr    string
	}{
		"token":         {"credentials that it contains are used, whatever other contexts have", kubeconfig("", usual), ""},
		"exec":          {"no program is run", kubeconfig("", "    exec: {apiVersion: client.authentication.k8s.io/v1, command: evil, interactiveMode: Never}"), `the program "evil" (exec), which Bursar does not run`},
		"auth-provider": {"no plugin is used", kubeconfig("", "    auth-provider: {name: gcp}"), `the auth-provider "gcp"`},
		"ca file":       {"no file is read", kubeconfig("    certificate-authority: /etc/passwd", usual), `the file "/etc/passwd" (certificate-authority)`},
		"cert file":     {"no file is read", kubeconfig("", "    client-certificate: /a"), `the file "/a" (client-certificate)`},
		"key file":      {"no file is read", kubeconfig("", "    client-key: /a"), `the file "/a" (client-key)`},
		"token file":    {"no file is read, also where there is a token", kubeconfig("", usual+"\n    tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token"), `(tokenFile)`},
		"none":          {"there has to be one", "", "holds no kubeconfig"},
		"not one":       {"that can be read", "{", "cannot be read"},
		"no context":    {"and that says which of its users and clusters", "apiVersion: v1\nkind: Config\n", `no context ""`},
		"no cluster":    {"of which there is one", strings.Replace(kubeconfig("", usual), "- name: c", "- name: d", 1), `no cluster "c"`},
		"no user":       {"of which there is one", strings.Replace(kubeconfig("", usual), "- name: u", "- name: v", 1), `no user "u"`},
	} {
		t.Run(test, func(t *testing.T) {
			config, err := remote.Config([]byte(tc.kubeconfig))
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("%s: got %v, want it to contain %s", tc.reason, err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if config.Host != "https://example.com:6443" || config.BearerToken != "secret" || config.Timeout <= 0 {
				t.Errorf("%s: got %+v, want that server, that token and a bound on the time", tc.reason, config)
			}
		})
	}
}
