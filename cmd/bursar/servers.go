package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/internal/standalone/apiserver"
)

// dataDirVariable names a data directory for `bursar kubectl`.
const dataDirVariable = "BURSAR_DATA_DIR"

// intent is whether a command reads from a server or writes to it.
type intent bool

const (
	reads  intent = false
	writes intent = true
)

// useServer sets the flags to the running local server, if there is one and no flag names another.
func useServer(flags *genericclioptions.ConfigFlags, does intent) error {
	if *flags.KubeConfig != "" || *flags.Context != "" || os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" {
		return nil
	}
	kubeconfig, err := findKubeconfig(does)
	if err != nil {
		if _, errDefault := os.Stat(clientcmd.RecommendedHomeFile); errDefault == nil && os.Getenv(dataDirVariable) == "" && len(runningServers()) == 0 {
			return nil
		}
		return err
	}
	*flags.KubeConfig = kubeconfig
	return checkAnswers(kubeconfig)
}

// clusterOf returns a configuration for the cluster of the flags, the kubeconfig or this Pod. Without a kubeconfig,
// client-go would try localhost:8080.
func clusterOf(flags *genericclioptions.ConfigFlags) (*rest.Config, error) {
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	loader := flags.ToRawKubeConfigLoader()
	kubeconfig, err := loader.RawConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	if _, err := rest.InClusterConfig(); err == nil || namesCluster(&kubeconfig, *flags.Context) {
		return config, nil
	}
	access := loader.ConfigAccess()
	files := access.GetLoadingPrecedence()
	if access.IsExplicitFile() {
		files = []string{access.GetExplicitFile()}
	}
	return nil, fmt.Errorf("no kubeconfig names a cluster: looked in %s; give --kubeconfig FILE or --context NAME, or set %s",
		strings.Join(files, " and "), clientcmd.RecommendedConfigPathEnvVar)
}

// namesCluster reports whether a context of a kubeconfig leads to a cluster. Without a name it is the current one.
func namesCluster(kubeconfig *clientcmdapi.Config, name string) bool {
	context := kubeconfig.Contexts[cmp.Or(name, kubeconfig.CurrentContext)]
	return context != nil && kubeconfig.Clusters[context.Cluster] != nil
}

// findKubeconfig finds the kubeconfig of a server: that of BURSAR_DATA_DIR, otherwise that of the running server,
// otherwise the latest noted one, otherwise that of the default data directory. If several servers run, a command that
// reads uses the latest one and prints its name; a command that writes gets an error.
func findKubeconfig(does intent) (string, error) {
	if dir := os.Getenv(dataDirVariable); dir != "" {
		path := filepath.Join(dir, "admin.kubeconfig")
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("no server has run on %s, which %s names: it holds no admin.kubeconfig", dir, dataDirVariable)
		}
		return path, nil
	}
	servers := runningServers()
	if len(servers) > 1 {
		if does == writes {
			return "", fmt.Errorf("%d servers run, on %s; say which one to change, by %s=DIR or --kubeconfig", len(servers), strings.Join(directories(servers), " and "), dataDirVariable)
		}
		fmt.Fprintf(os.Stderr, "bursar: using the server on %s, the last started of %d; choose another by %s=DIR\n", filepath.Dir(servers[0]), len(servers), dataDirVariable)
	}
	if len(servers) > 0 {
		return servers[0], nil
	}
	candidates := notedServers()
	if dir, err := standalone.DefaultDataDir(); err == nil {
		candidates = append(candidates, filepath.Join(dir, "admin.kubeconfig"))
	}
	for _, path := range candidates {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no running server was found: start one with 'bursar standalone', or name one with --kubeconfig, KUBECONFIG or %s", dataDirVariable)
}

func directories(kubeconfigs []string) []string {
	all := make([]string, 0, len(kubeconfigs))
	for _, path := range kubeconfigs {
		all = append(all, filepath.Dir(path))
	}
	slices.Sort(all)
	return all
}

// runningServers returns the kubeconfigs of this user's running servers, the latest first.
func runningServers() []string {
	return slices.DeleteFunc(notedServers(), func(kubeconfig string) bool { return !apiserver.IsHeld(filepath.Dir(kubeconfig)) })
}

// serverNotes returns the directory for servers' notes of their kubeconfigs, and the prefix of these files.
func serverNotes() (dir, prefix string) {
	dir = os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		dir = filepath.Join(os.TempDir(), fmt.Sprintf("bursar-%d", os.Getuid()))
	}
	return dir, "bursar-server-"
}

// notedServers returns the kubeconfigs noted by servers, the latest first. A killed server leaves its note.
func notedServers() []string {
	dir, prefix := serverNotes()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	type note struct {
		kubeconfig string
		at         time.Time
	}
	var notes []note
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !strings.HasPrefix(entry.Name(), prefix) {
			continue
		}
		if content, err := os.ReadFile(filepath.Join(dir, entry.Name())); err == nil {
			notes = append(notes, note{strings.TrimSpace(string(content)), info.ModTime()})
		}
	}
	slices.SortFunc(notes, func(a, b note) int { return b.at.Compare(a.at) })
	all := make([]string, 0, len(notes))
	for _, n := range notes {
		all = append(all, n.kubeconfig)
	}
	return all
}

// rememberServer notes a server's kubeconfig for `bursar kubectl`, and returns a function to remove the note. A server
// serves without a note, too.
func rememberServer(kubeconfig string) (forget func()) {
	dir, prefix := serverNotes()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return func() {}
	}
	path := filepath.Join(dir, prefix+naming.Suffix(kubeconfig))
	if err := os.WriteFile(path, []byte(kubeconfig+"\n"), 0o600); err != nil {
		return func() {}
	}
	return func() { _ = os.Remove(path) } // a remaining note does no harm: the lock of its directory is free
}
