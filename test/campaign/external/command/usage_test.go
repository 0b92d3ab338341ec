package command

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/process"
)

// TestUsage shows the usage to an administrator, to a tenant and to a user without any permission.
func TestUsage(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds and starts a server")
	}
	binary, err := process.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, variable := range []string{"XDG_RUNTIME_DIR", "XDG_DATA_HOME", "HOME"} { // Go builds by HOME
		t.Setenv(variable, t.TempDir())
	}
	t.Setenv("KUBECONFIG", "")
	wantRefusal(t, "there is no server", "no running server was found: start one with 'bursar standalone'", "usage")
	wantRefusal(t, "a format that is not there", `--output: there is no format "xml"; choose json, yaml, wide, jsonpath=TEMPLATE or custom-columns=SPEC`, "usage", "-o", "xml")
	server := process.Start(t, t.TempDir())
	run := func(arguments ...string) string {
		t.Helper()
		output, err := exec.Command(binary, arguments...).CombinedOutput()
		if err != nil {
			t.Fatalf("bursar %s: %v\n%s", strings.Join(arguments, " "), err, output)
		}
		return string(output)
	}
	if output := run("usage"); output != "No quota is granted or used.\n" {
		t.Errorf("got %q", output)
	}
	run("kubectl", "apply", "-f", filepath.Join("testdata", "usage.yaml"))
	const shop = "shop/Project/shop     compute.example.com/vcpus   3 vCPUs   4 vCPUs   1 vCPU      75%           0\n"
	await.NoError(t, time.Minute, func() error {
		want := "CONSUMER              RESOURCE TYPE               USED      LIMIT     AVAILABLE   UTILIZATION   WAITING\n" + shop +
			"default/Project/web   compute.example.com/vcpus   0 vCPUs   2 vCPUs   2 vCPUs     0%            0\n"
		if output := run("usage"); output != want {
			return fmt.Errorf("got\n%swant\n%s", output, want)
		}
		return nil
	})
	var report struct {
		Items []struct {
			ConsumerRef struct{ Name string }
			Utilization float64
		}
	}
	if err := json.Unmarshal([]byte(run("usage", "-o", "json", "--consumer", "project/shop")), &report); err != nil || len(report.Items) != 1 || report.Items[0].Utilization != 0.75 {
		t.Errorf("got %+v, %v", report, err)
	}

	tenant, nobody := kubeconfigOf(t, server, "shop", "tenant"), kubeconfigOf(t, server, "shop", "nobody")
	if output := run("usage", "--kubeconfig", tenant); !strings.Contains(output, "shop/Project/shop   compute.example.com/vcpus   3 vCPUs") || strings.Contains(output, "Project/web") {
		t.Errorf("a tenant sees\n%s", output)
	}
	for name, tt := range map[string]struct{ arguments, want string }{
		"consumer":  {"--consumer projet/shop", `no quota is granted to, or used by, a consumer "projet/shop"; did you mean project/shop?`},
		"type":      {"--type vcpu", `there is no resource type "vcpu"; did you mean compute.example.com/vcpus?`},
		"namespace": {"-n shpo", `there is no namespace "shpo"; did you mean shop?`},
		"order":     {"--sort-by size", `--sort-by: there is no order "size"; choose one of utilization, consumer, type, available, waiting`},
		"everybody": {"-A --kubeconfig " + tenant, "you may not see the quota of all namespaces; choose one of yours with --namespace"},
	} {
		wantRefusal(t, name, tt.want, append([]string{"usage"}, strings.Fields(tt.arguments)...)...)
	}
	for name, tt := range map[string]struct{ arguments, want, not string }{
		"near":            {"--near=75", "Project/shop", "Project/web"},
		"limit":           {"--limit 1", "Left out by --limit: 1 more.", "Project/web"},
		"order":           {"--sort-by consumer --limit 1", "Project/web", "Project/shop"},
		"claims":          {"--claims", "shop/Project/shop   shop/one   ConfigMap/one   vcpus=3 vCPUs   Granted", "UTILIZATION"},
		"a tenant's":      {"--claims --kubeconfig " + tenant, "shop/Project/shop   shop/one   ConfigMap/one   vcpus=3 vCPUs   Granted", "Project/web"},
		"all namespaces":  {"-A", "Project/web", "nothing"},
		"nothing is near": {"--near=99", "Nothing uses 99% of its limit, and no claim waits.", "Project"},
	} {
		if output := run(append([]string{"usage"}, strings.Fields(tt.arguments)...)...); !strings.Contains(output, tt.want) || strings.Contains(output, tt.not) {
			t.Errorf("%s: got\n%swant %q and not %q", name, output, tt.want, tt.not)
		}
	}
	wantWhy(t, run, tenant)
	if output, err := exec.Command(binary, "kubectl", "--kubeconfig", tenant, "get", "--raw", "/metrics").CombinedOutput(); err == nil {
		t.Errorf("a tenant scrapes the server: %.200s", output)
	}
	run("kubectl", "create", "clusterrolebinding", "bursar-metrics", "--clusterrole=bursar-metrics-reader", "--serviceaccount=shop:nobody")
	await.NoError(t, time.Minute, func() error {
		output, err := exec.Command(binary, "kubectl", "--kubeconfig", nobody, "get", "--raw", "/metrics").CombinedOutput()
		if err != nil || !strings.Contains(string(output), `quota_used{`) {
			return fmt.Errorf("whoever may scrape the server gets %.200s, %v", output, err)
		}
		return nil
	})
	wantRefusal(t, "one who may see nothing", "you may not see the quota in namespace shop; name another with --namespace: effectiveresourcegrants.quota.miloapis.com is forbidden",
		"usage", "--kubeconfig", nobody)
}

// kubeconfigOf writes a kubeconfig of a ServiceAccount with its namespace.
func kubeconfigOf(t *testing.T, server *process.Server, namespace, name string) string {
	t.Helper()
	api, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	token, err := api.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(server.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	current := config.Contexts[config.CurrentContext]
	current.Namespace, current.AuthInfo = namespace, name
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{name: {Token: token.Status.Token}}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantWhy asks why something waits, would get a denial and got one, as an administrator and as a tenant.
func wantWhy(t *testing.T, run func(...string) string, tenant string) {
	t.Helper()
	run("kubectl", "apply", "-f", filepath.Join("testdata", "why.yaml"))
	run("kubectl", "wait", "--for=condition=Ready", "claimcreationpolicy/apps", "--timeout=60s")
	big, small := filepath.Join("testdata", "why-big.yaml"), filepath.Join("testdata", "why-small.yaml")
	check := func(name, output string, parts ...string) error {
		for _, part := range parts {
			if !strings.Contains(output, part) {
				return fmt.Errorf("%s: got\n%swant %q", name, output, part)
			}
		}
		return nil
	}
	want := func(name, output string, parts ...string) {
		t.Helper()
		if err := check(name, output, parts...); err != nil {
			t.Error(err)
		}
	}
	wantSoon := func(name, arguments string, parts ...string) {
		t.Helper()
		await.NoError(t, time.Minute, func() error { return check(name, run(strings.Fields(arguments)...), parts...) })
	}
	shortage := []string{
		"compute.example.com/vcpus   2 vCPUs   3 vCPUs   4 vCPUs   1 vCPU      no, 1 vCPU short",
		"Limit of compute.example.com/vcpus: shop/base gives 4 vCPUs", "Use of compute.example.com/vcpus: ConfigMap one in namespace shop holds 3 vCPUs",
		"What to do: Delete what Project shop in namespace shop no longer needs, or ask an administrator to grant it more.",
		`To ask for more: bursar request compute.example.com/vcpus=+1000 --for Project/shop -n shop --reason "..."`,
	}
	wantSoon("a file that is too much", "why -f "+big, append(shortage,
		"Why: ConfigMap app-big in namespace shop", "The API server would not create it: ", "exceeded quota: ", "apps     Enforce   Ready   yes",
		"Project shop in namespace shop pays, by ClaimCreationPolicy apps")...)
	wantSoon("a file that fits", "why -f "+small, "The API server would create it now.", "compute.example.com/vcpus   1 vCPU   3 vCPUs   4 vCPUs   1 vCPU      yes")
	wantSoon("what a tenant sees of it", "why -f "+small+" --kubeconfig "+tenant, "Why: ConfigMap app-small in namespace shop", "The API server would not create it: ", "forbidden")
	run("kubectl", "apply", "-f", small)
	for name, kubeconfig := range map[string]string{"an administrator": "", "a tenant": " --kubeconfig " + tenant} {
		wantSoon(name, "why configmap/app-small -n shop"+kubeconfig, "Project shop in namespace shop pays, by ResourceClaim shop/", ": granted",
			"1 vCPU   4 vCPUs   4 vCPUs   0 vCPUs     granted", "ConfigMap one in namespace shop holds 3 vCPUs; ConfigMap app-small")
	}
	run("kubectl", "delete", "-f", small)
	binary, err := process.Build()
	if err != nil {
		t.Fatal(err)
	}
	denied, err := exec.Command(binary, "kubectl", "apply", "-f", big).CombinedOutput()
	if err == nil {
		t.Fatalf("it was created: %s", denied)
	}
	for name, kubeconfig := range map[string][]string{"an administrator": nil, "a tenant": {"--kubeconfig", tenant}} {
		why := exec.Command(binary, append([]string{"why", "-"}, kubeconfig...)...)
		why.Stdin = strings.NewReader(string(denied))
		output, err := why.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, output)
		}
		want("an error that "+name+" pastes", string(output), "Why: the error", "Project shop in namespace shop pays", "Limit of compute.example.com/vcpus: shop/base gives 4 vCPUs",
			"Use of compute.example.com/vcpus: ConfigMap one in namespace shop holds 3 vCPUs", "What to do: ")
	}
	for text, said := range map[string]string{
		"exceeded quota: compute.example.com/vcpus quota of Project shop in namespace shop, requested: 2": "Project shop in namespace shop pays\nRESOURCE TYPE",
		"exceeded quota: the quota of Project shop in namespace shop, and no more":                        "The error names no resource type, so all resource types of Project shop in namespace shop follow:\nRESOURCE TYPE",
	} {
		why := exec.Command(binary, "why", "-")
		why.Stdin = strings.NewReader(text)
		output, err := why.CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, output)
		}
		want("what the error "+text+" is about", string(output), said)
	}
	for kubeconfig, said := range map[string]string{
		"":                       "No quota of Project secret in namespace hidden is shown: nothing is granted to it, or it does not exist.",
		"--kubeconfig=" + tenant: "You may not see the quota of Project secret in namespace hidden: ask an administrator.",
	} {
		why := exec.Command(binary, slices.DeleteFunc([]string{"why", "-", kubeconfig}, func(argument string) bool { return argument == "" })...)
		why.Stdin = strings.NewReader("exceeded quota: the quota of Project secret in namespace hidden does not allow it (App).")
		output, err := why.CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, output)
		}
		want("what is not shown", string(output), said)
	}
	wantRefusal(t, "what does not exist", "ConfigMap none does not exist in namespace shop; to explain a denied object, give its file with -f", "why", "configmap/none", "-n", "shop")
	wantRefusal(t, "nothing named", "name one thing to explain", "why")
	wantRefusal(t, "no kind", `"app" is not KIND/NAME`, "why", "app")
}
