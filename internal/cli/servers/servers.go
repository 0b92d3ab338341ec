// Package servers finds the API server for a command: that of its flags, that of the environment, or a running
// standalone server on this machine. It links no server.
package servers

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // the auth-providers in kubeconfigs
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/internal/standalone/datadir"
)

// dataDirVariable names the data directory of the standalone server to use.
const dataDirVariable = "BURSAR_DATA_DIR"

// answerTimeout is how long a server may take to answer.
const answerTimeout = 10 * time.Second

// Intent is whether a command reads from a server or writes to it.
type Intent bool

const (
	// Reads is the intent of a command that changes nothing.
	Reads Intent = false
	// Writes is the intent of all others.
	Writes Intent = true
)

// AddFlags adds the flags for an API server and a user, as kubectl names them.
func AddFlags(command *cobra.Command) *genericclioptions.ConfigFlags {
	all := genericclioptions.NewConfigFlags(false)
	flags := &genericclioptions.ConfigFlags{
		KubeConfig: all.KubeConfig, Context: all.Context, Impersonate: all.Impersonate, ImpersonateGroup: all.ImpersonateGroup,
	}
	flags.AddFlags(command.Flags())
	return flags
}

// Config returns a configuration for the API server of the flags or, without such flags, for the one that use finds.
func Config(p cli.Program, flags *genericclioptions.ConfigFlags, does Intent) (*rest.Config, error) {
	if err := use(p, flags, does); err != nil {
		return nil, err
	}
	return Cluster(flags)
}

// use sets the flags to the running local server, if there is one and no flag names another. The plugin prefers the
// user's own kubeconfig, as kubectl does.
func use(p cli.Program, flags *genericclioptions.ConfigFlags, does Intent) error {
	if *flags.KubeConfig != "" || *flags.Context != "" || os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" {
		return nil
	}
	_, errDefault := os.Stat(clientcmd.RecommendedHomeFile)
	prefersDefault := errDefault == nil && os.Getenv(dataDirVariable) == ""
	if prefersDefault && p.IsPlugin() {
		return nil
	}
	kubeconfig, err := FindKubeconfig(p, does)
	if err != nil {
		if prefersDefault && len(running()) == 0 {
			return nil
		}
		return err
	}
	*flags.KubeConfig = kubeconfig
	return CheckAnswers(kubeconfig)
}

// Cluster returns a configuration for the cluster of the flags, the kubeconfig or this Pod. Without a kubeconfig,
// client-go would try localhost:8080.
func Cluster(flags *genericclioptions.ConfigFlags) (*rest.Config, error) {
	loader := flags.ToRawKubeConfigLoader()
	kubeconfig, err := loader.RawConfig()
	if err != nil {
		return nil, unreadable(*flags.KubeConfig, err)
	}
	if name := *flags.Context; name != "" && kubeconfig.Contexts[name] == nil {
		return nil, fmt.Errorf("--context: the kubeconfig has no context %q; it has %s",
			name, cmp.Or(strings.Join(slices.Sorted(maps.Keys(kubeconfig.Contexts)), ", "), "none"))
	}
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
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

// unreadable returns the error for a kubeconfig that cannot be read: the file of the flag, or one of KUBECONFIG.
func unreadable(file string, err error) error {
	named := "--kubeconfig"
	if file == "" {
		named, file = clientcmd.RecommendedConfigPathEnvVar, os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: there is no file %s", named, file)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: you may not read %s", named, file)
	case strings.Contains(err.Error(), "couldn't get version/kind"): // client-go has no type for it
		return fmt.Errorf("%s: %s is not a kubeconfig", named, file)
	default:
		return fmt.Errorf("%s: %w", named, err)
	}
}

// namesCluster reports whether a context of a kubeconfig leads to a cluster. Without a name it is the current one.
func namesCluster(kubeconfig *clientcmdapi.Config, name string) bool {
	context := kubeconfig.Contexts[cmp.Or(name, kubeconfig.CurrentContext)]
	return context != nil && kubeconfig.Clusters[context.Cluster] != nil
}

// FindKubeconfig finds the kubeconfig of a server: that of BURSAR_DATA_DIR, otherwise that of the running server,
// otherwise the latest noted one, otherwise that of the default data directory. If several servers run, a reading
// command uses the latest one and prints its name; a writing command gets an error.
func FindKubeconfig(p cli.Program, does Intent) (string, error) {
	if dir := os.Getenv(dataDirVariable); dir != "" {
		path := datadir.Kubeconfig(dir)
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("no server has run on %s, the value of %s: it holds no admin.kubeconfig", dir, dataDirVariable)
		}
		return path, nil
	}
	servers := running()
	if len(servers) > 1 {
		if does == Writes {
			return "", fmt.Errorf("%d servers run, on %s; choose the one to change with %s=DIR or --kubeconfig", len(servers), strings.Join(directories(servers), " and "), dataDirVariable)
		}
		fmt.Fprintf(os.Stderr, "%s: using the server on %s, the last started of %d; choose another with %s=DIR\n", p.Name, filepath.Dir(servers[0]), len(servers), dataDirVariable)
	}
	if len(servers) > 0 {
		return servers[0], nil
	}
	candidates := noted()
	if dir, err := datadir.Default(); err == nil {
		candidates = append(candidates, datadir.Kubeconfig(dir))
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

// running returns the kubeconfigs of this user's running servers, the latest first.
func running() []string {
	return slices.DeleteFunc(noted(), func(kubeconfig string) bool { return !datadir.IsHeld(filepath.Dir(kubeconfig)) })
}

// notes returns the directory for servers' notes of their kubeconfigs, and the prefix of these files.
func notes() (dir, prefix string) {
	dir = os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		dir = filepath.Join(os.TempDir(), fmt.Sprintf("bursar-%d", os.Getuid()))
	}
	return dir, "bursar-server-"
}

// noted returns the kubeconfigs noted by servers, the latest first. A killed server leaves its note.
func noted() []string {
	dir, prefix := notes()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	type note struct {
		kubeconfig string
		at         time.Time
	}
	var found []note
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !strings.HasPrefix(entry.Name(), prefix) {
			continue
		}
		if content, err := os.ReadFile(filepath.Join(dir, entry.Name())); err == nil {
			found = append(found, note{strings.TrimSpace(string(content)), info.ModTime()})
		}
	}
	slices.SortFunc(found, func(a, b note) int { return b.at.Compare(a.at) })
	all := make([]string, 0, len(found))
	for _, n := range found {
		all = append(all, n.kubeconfig)
	}
	return all
}

// Remember notes a server's kubeconfig for clients, and returns a function to remove the note. A server serves without
// a note, too.
func Remember(kubeconfig string) (forget func()) {
	dir, prefix := notes()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return func() {}
	}
	path := filepath.Join(dir, prefix+naming.Suffix(kubeconfig))
	if err := os.WriteFile(path, []byte(kubeconfig+"\n"), 0o600); err != nil {
		return func() {}
	}
	return func() { _ = os.Remove(path) } // a remaining note does no harm: the lock of its directory is free
}

// CheckAnswers makes sure that the server of a found kubeconfig runs. Otherwise kubectl prints the same error several
// times.
func CheckAnswers(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("%s is not a kubeconfig: %w", kubeconfig, err)
	}
	config.Timeout = answerTimeout
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("make a client for the server of %s: %w", kubeconfig, err)
	}
	response, err := client.Get(config.Host + "/livez")
	if err != nil {
		return fmt.Errorf("the server of %s does not answer at %s: start it with bursar standalone --data-dir %s", kubeconfig, config.Host, filepath.Dir(kubeconfig))
	}
	return response.Body.Close()
}
