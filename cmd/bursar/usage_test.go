package main_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
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

// TestUsage shows the usage to an administrator, to a tenant and to one who may see nothing.
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
	wantRefusal(t, "a format that is not there", `--output: there is no format "xml"; choose json, yaml or wide`, "usage", "-o", "xml")
	server := process.Start(t, t.TempDir())
	run := func(arguments ...string) string {
		t.Helper()
		output, err := exec.Command(binary, arguments...).CombinedOutput()
		if err != nil {
			t.Fatalf("bursar %s: %v\n%s", strings.Join(arguments, " "), err, output)
		}
		return string(output)
	}
	if output := run("usage"); output != "No such quota is granted or used.\n" {
		t.Errorf("got %q", output)
	}
	run("kubectl", "apply", "-f", filepath.Join("testdata", "usage.yaml"))
	const shop = "shop/Project/shop     compute.example.com/vcpus   3 vCPUs   4 vCPUs   1 vCPUs     75%\n"
	await.NoError(t, time.Minute, func() error {
		want := "CONSUMER              RESOURCE TYPE               USED      LIMIT     AVAILABLE   UTILIZATION\n" + shop +
			"default/Project/web   compute.example.com/vcpus   0 vCPUs   2 vCPUs   2 vCPUs     0%\n"
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
	wantRefusal(t, "one who may see nothing", "you may not see the quota that is shown in namespace shop; name another with --namespace: effectiveresourcegrants.quota.miloapis.com is forbidden",
		"usage", "--kubeconfig", nobody)
}

// kubeconfigOf writes a kubeconfig of a ServiceAccount, whose namespace it names.
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
