package servers

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/standalone/datadir"
)

// writeKubeconfig writes a kubeconfig for a server.
func writeKubeconfig(t *testing.T, path, host string) {
	t.Helper()
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["c"] = &clientcmdapi.Cluster{Server: host}
	kubeconfig.Contexts["c"] = &clientcmdapi.Context{Cluster: "c"}
	kubeconfig.CurrentContext = "c"
	if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
		t.Fatal(err)
	}
}

// startStandalone fakes a running standalone server, and returns its address and its data directory.
func startStandalone(t *testing.T) (host, dir string) {
	t.Helper()
	answering := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(answering.Close)
	held, err := datadir.Open(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(held.Close)
	writeKubeconfig(t, datadir.Kubeconfig(held.Path()), answering.URL)
	t.Cleanup(Remember(datadir.Kubeconfig(held.Path())))
	return answering.URL, held.Path()
}

// isolate keeps the developer's own servers out of the test. It returns the path of the kubeconfig in the home
// directory. No file exists there.
func isolate(t *testing.T) string {
	t.Helper()
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	t.Setenv(clientcmd.RecommendedConfigPathEnvVar, "")
	t.Setenv(dataDirVariable, "")
	before := clientcmd.RecommendedHomeFile
	t.Cleanup(func() { clientcmd.RecommendedHomeFile = before })
	clientcmd.RecommendedHomeFile = filepath.Join(t.TempDir(), "config")
	return clientcmd.RecommendedHomeFile
}

// TestConfig proves the choice of a server: bursar talks to the one running here, and the plugin to that of kubectl.
func TestConfig(t *testing.T) {
	const cluster, other = "https://cluster.example.com", "https://other.example.com"
	bursar, plugin := cli.ProgramOf("/bin/bursar", "test"), cli.ProgramOf("/bin/kubectl-bursar", "test")
	for name, tt := range map[string]struct {
		reason          string
		program         cli.Program
		hasHome, isHere bool
		kubeconfig      bool
		want            string
	}{
		"Here":       {"the running server", bursar, true, true, false, "standalone"},
		"PluginHome": {"as kubectl does", plugin, true, true, false, cluster},
		"PluginHere": {"the running server, where kubectl knows none", plugin, false, true, false, "standalone"},
		"Home":       {"the cluster, where no server runs", bursar, true, false, false, cluster},
		"Flag":       {"the flag wins", bursar, true, true, true, other},
		"PluginFlag": {"the flag wins", plugin, true, true, true, other},
		"None":       {"nothing is found", plugin, false, false, false, "no running server was found"},
	} {
		t.Run(name, func(t *testing.T) {
			home, want := isolate(t), tt.want
			if tt.hasHome {
				writeKubeconfig(t, home, cluster)
			}
			if tt.isHere {
				host, _ := startStandalone(t)
				if want == "standalone" {
					want = host
				}
			}
			flags := genericclioptions.NewConfigFlags(false)
			if tt.kubeconfig {
				*flags.KubeConfig = filepath.Join(t.TempDir(), "other")
				writeKubeconfig(t, *flags.KubeConfig, other)
			}
			config, err := Config(tt.program, flags, Reads)
			switch {
			case err != nil && !strings.Contains(err.Error(), want):
				t.Errorf("%s: got %v, want %s", tt.reason, err, want)
			case err == nil && config.Host != want:
				t.Errorf("%s: got %s, want %s", tt.reason, config.Host, want)
			}
		})
	}
}

// A wrong kubeconfig or context has an explanation in one sentence.
func TestWrongKubeconfigs(t *testing.T) {
	isolate(t)
	folder := t.TempDir()
	other, two := filepath.Join(folder, "other.yaml"), filepath.Join(folder, "two.yaml")
	for path, content := range map[string]string{
		other: "- a\n",
		two:   "apiVersion: v1\nkind: Config\ncontexts: [{name: one, context: {}}, {name: more, context: {}}]\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	missing := filepath.Join(folder, "missing")
	for name, tt := range map[string]struct{ flag, context, variable, want string }{
		"Missing":  {missing, "", "", "--kubeconfig: there is no file " + missing},
		"Other":    {other, "", "", "--kubeconfig: " + other + " is not a kubeconfig"},
		"Variable": {"", "", other, "KUBECONFIG: " + other + " is not a kubeconfig"},
		"Context":  {two, "foo", "", `--context: the kubeconfig has no context "foo"; it has more, one`},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.variable != "" {
				t.Setenv("KUBECONFIG", tt.variable)
			}
			flags := AddFlags(&cobra.Command{})
			*flags.KubeConfig, *flags.Context = tt.flag, tt.context
			if _, err := Cluster(flags); err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

// TestSeveral proves that nobody changes the wrong one of several servers.
func TestSeveral(t *testing.T) {
	isolate(t)
	startStandalone(t)
	_, dir := startStandalone(t)
	p := cli.Program{Name: "bursar"}
	if _, err := FindKubeconfig(p, Writes); err == nil || !strings.Contains(err.Error(), "2 servers run, on ") {
		t.Errorf("a command that writes finds one of two servers: %v", err)
	}
	if _, err := FindKubeconfig(p, Reads); err != nil {
		t.Errorf("a command that reads finds none of two servers: %v", err)
	}
	t.Setenv(dataDirVariable, dir)
	if got, err := FindKubeconfig(p, Writes); err != nil || got != datadir.Kubeconfig(dir) {
		t.Errorf("%s=%s finds %s: %v", dataDirVariable, dir, got, err)
	}
	if err := os.Remove(datadir.Kubeconfig(dir)); err != nil {
		t.Fatal(err)
	}
	if _, err := FindKubeconfig(p, Reads); err == nil || !strings.Contains(err.Error(), "no server has run on ") {
		t.Errorf("a folder without a kubeconfig: %v", err)
	}
}
