package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/bursar/bursar/internal/standalone"
)

// dataDirVariable names a data directory for `bursar kubectl`.
const dataDirVariable = "BURSAR_DATA_DIR"

// answerPatience is how long a server may take to say that it is there.
const answerPatience = 10 * time.Second

// runKubectl runs kubectl with the given arguments, the first of which is its name, and returns
// its exit code.
func runKubectl(arguments []string) int {
	if os.Getenv("KUBECONFIG") == "" && !namesServer(arguments) && needsServer(arguments) {
		kubeconfig, err := findKubeconfig()
		if err == nil {
			err = os.Setenv("KUBECONFIG", kubeconfig)
		}
		if err == nil && arguments[1] != "config" {
			err = checkAnswers(kubeconfig)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bursar:", err)
			return 1
		}
	}
	os.Args = arguments
	command := cmd.NewDefaultKubectlCommand()
	if err := cli.RunNoErrOutput(command); err != nil {
		cmdutil.CheckErr(err) // it exits with kubectl's own code
	}
	return 0
}

// namesServer tells whether the arguments say which server to talk to.
func namesServer(arguments []string) bool {
	return slices.ContainsFunc(arguments, func(argument string) bool {
		name, _, _ := strings.Cut(argument, "=")
		return name == "--kubeconfig" || name == "--server" || name == "-s"
	})
}

// needsServer tells whether the arguments ask for more than help.
func needsServer(arguments []string) bool {
	if len(arguments) < 2 || slices.Contains(arguments, "--help") || slices.Contains(arguments, "-h") {
		return false
	}
	return !slices.Contains([]string{"help", "completion", "kustomize", "options", "plugin"}, arguments[1])
}

// findKubeconfig finds the kubeconfig of the running server: that of BURSAR_DATA_DIR, else that
// of the server started last, else that of the default data directory.
func findKubeconfig() (string, error) {
	if dir := os.Getenv(dataDirVariable); dir != "" {
		path := filepath.Join(dir, "admin.kubeconfig")
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("no server has run on %s, which %s names: it holds no admin.kubeconfig", dir, dataDirVariable)
		}
		return path, nil
	}
	candidates := []string{}
	if current, err := os.ReadFile(currentServerFile()); err == nil {
		candidates = append(candidates, strings.TrimSpace(string(current)))
	}
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

// checkAnswers makes sure that the server of a kubeconfig that we found still runs: kubectl says
// the same thing several times where it does not.
func checkAnswers(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("%s is not a kubeconfig: %w", kubeconfig, err)
	}
	config.Timeout = answerPatience
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

// currentServerFile is where the server started last notes its kubeconfig.
func currentServerFile() string {
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		dir = filepath.Join(os.TempDir(), fmt.Sprintf("bursar-%d", os.Getuid()))
	}
	return filepath.Join(dir, "bursar-kubeconfig")
}

// rememberServer notes a server's kubeconfig for `bursar kubectl`, and returns how to forget it.
// Failing to is no reason not to serve.
func rememberServer(kubeconfig string) (forget func()) {
	path := currentServerFile()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return func() {}
	}
	if err := os.WriteFile(path, []byte(kubeconfig+"\n"), 0o600); err != nil {
		return func() {}
	}
	return func() {
		if current, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(current)) == kubeconfig {
			_ = os.Remove(path)
		}
	}
}
