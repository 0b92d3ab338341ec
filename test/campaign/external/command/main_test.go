// Package command runs the commands of bursar as their users do.
package command

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/test/etcd"
	"github.com/bursar/bursar/test/process"
)

// TestRefusals checks the sentence for each reason why a server cannot start.
func TestRefusals(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the binary")
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close() //nolint:errcheck // the test is over
	foreign, later, blocked, file := t.TempDir(), t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "file")
	empty, unset := filepath.Join(t.TempDir(), "empty"), filepath.Join(t.TempDir(), "unset")
	for path, content := range map[string]string{
		filepath.Join(foreign, "holiday.jpg"): "x", filepath.Join(later, "bursar.json"): `{"formatVersion": 99}`, file: "x",
		filepath.Join(blocked, "bursar.json"): `{"formatVersion": 1}`, filepath.Join(blocked, "logs"): "x", empty: "",
		unset: "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("KUBECONFIG", file+"-not")
	configuration := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(configuration, []byte("apiVersion: config.quota.miloapis.com/v1alpha1\nkind: OperatorConfiguration\nwebhook: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		reason    string
		arguments []string
		want      string
	}{
		"port taken":                {"says which and what to do", []string{"standalone", "--data-dir", t.TempDir(), "--listen", taken.Addr().String()}, "cannot listen on " + taken.Addr().String() + ": address already in use; choose another --listen"},
		"foreign directory":         {"never writes into what is not its own", []string{"standalone", "--data-dir", foreign}, `is not one of bursar's (it holds "holiday.jpg"); choose another --data-dir`},
		"later version":             {"does not touch what it does not know", []string{"standalone", "--data-dir", later}, "has format version 99"},
		"a file":                    {"a directory is needed", []string{"standalone", "--data-dir", file}, "not a directory"},
		"bad address":               {"host and port", []string{"standalone", "--data-dir", t.TempDir(), "--listen", "7443"}, `listen address "7443" is not of the form host:port`},
		"no configuration":          {"says which file", []string{"operator", "--config", file + "/none"}, "read the configuration: open " + file + "/none"},
		"bad configuration":         {"a slip must not be a default", []string{"operator", "--config", configuration}, "webhook: Forbidden: there is no such field"},
		"no cluster":                {"says how to name one", []string{"operator"}, "name a cluster with --kubeconfig"},
		"no kubeconfig":             {"says which", []string{"operator", "--kubeconfig", file + "/none"}, file + "/none"},
		"nothing to uninstall from": {"says how to name a cluster", []string{"uninstall"}, "no kubeconfig names a cluster: looked in " + file + "-not; give --kubeconfig FILE or --context NAME, or set KUBECONFIG"},
		"usage of nothing":          {"never falls back on localhost:8080", []string{"usage"}, "no kubeconfig names a cluster: looked in " + file + "-not; give --kubeconfig FILE"},
		"status of nothing":         {"an empty file names nothing", []string{"status", "--kubeconfig", empty}, "no kubeconfig names a cluster: looked in " + empty + "; give --kubeconfig FILE"},
		"why of nothing":            {"no context is the current one", []string{"why", "-", "--kubeconfig", unset}, "no kubeconfig names a cluster: looked in " + unset + "; give --kubeconfig FILE or --context NAME"},
		"unknown flag":              {"", []string{"standalone", "--nope"}, "unknown flag: --nope"},
		"folder blocked":            {"names what is in the way", onFreePort(blocked), filepath.Join(blocked, "logs") + " is in the way: not a directory"},
		"etcd no URL":               {"says what one looks like", onFreePort(t.TempDir(), "--etcd-servers", "foo"), `--etcd-servers: "foo" is not a URL such as https://127.0.0.1:2379`},
		"etcd no scheme":            {"says what one looks like", onFreePort(t.TempDir(), "--etcd-servers", "127.0.0.1:2379"), `--etcd-servers: "127.0.0.1:2379" is not a URL`},
		"etcd empty":                {"an unset variable must not start an etcd of its own", onFreePort(t.TempDir(), "--etcd-servers", ""), "--etcd-servers is empty"},
		"etcd authority":            {"it is of no use alone", onFreePort(t.TempDir(), "--etcd-cafile", file), "--etcd-cafile needs --etcd-servers"},
		"etcd certificate":          {"it is of no use alone", onFreePort(t.TempDir(), "--etcd-certfile", file), "--etcd-certfile needs --etcd-servers"},
		"etcd key":                  {"it is of no use alone", onFreePort(t.TempDir(), "--etcd-keyfile", file), "--etcd-keyfile needs --etcd-servers"},
		"etcd no key":               {"a certificate needs its key", onFreePort(t.TempDir(), "--etcd-servers", "https://127.0.0.1:1", "--etcd-certfile", file), "--etcd-certfile needs --etcd-keyfile"},
		"etcd no file":              {"names the flag", onFreePort(t.TempDir(), "--etcd-servers", "https://127.0.0.1:1", "--etcd-cafile", file+"-not"), "--etcd-cafile: " + file + "-not cannot be read: no such file or directory"},
		"etcd bad file":             {"names the flag", onFreePort(t.TempDir(), "--etcd-servers", "https://127.0.0.1:1", "--etcd-cafile", file), "--etcd-cafile: " + file + " holds no certificate"},
		"etcd bad pair":             {"names the flags", onFreePort(t.TempDir(), "--etcd-servers", "https://127.0.0.1:1", "--etcd-certfile", file, "--etcd-keyfile", file), "do not make a pair"},
		"system namespace":          {"says what a name is", onFreePort(t.TempDir(), "--system-namespace", "Bursar"), `--system-namespace: Bursar cannot be the name of a namespace: a namespace has`},
		"no template":               {"shows the form", onFreePort(t.TempDir(), "--consumer-namespace", "Organization"), "is not of the form KIND.GROUP=TEMPLATE, such as"},
		"no group":                  {"shows the form", onFreePort(t.TempDir(), "--consumer-namespace", "Organization={{name}}"), "is not of the form KIND.GROUP=TEMPLATE, such as"},
		"bad template":              {"names the template", onFreePort(t.TempDir(), "--consumer-namespace", "Organization.example.com=org_{{name}}"), "--consumer-namespace: org_{{name}} cannot be the name of a namespace"},
		"two templates":             {"only one can count", onFreePort(t.TempDir(), "--consumer-namespace", "A.b=c", "--consumer-namespace", "A.b=d"), "A.b is given twice"},
		"long advice":               {"says how long", onFreePort(t.TempDir(), "--exceeded-advice", strings.Repeat("a", 501)), "--exceeded-advice: may not be more than 500 bytes"},
		"long requests":             {"a reservation would be kept too long", onFreePort(t.TempDir(), "--request-timeout", "3m"), "--request-timeout: 3m0s must be at most 2m0s"},
		"small objects":             {"etcd stores larger ones", onFreePort(t.TempDir(), "--max-object-bytes", "1024"), "--max-object-bytes: 1024 must be at least 1572864"},
		"threshold":                 {"nobody uses more than everything", onFreePort(t.TempDir(), "--alert-threshold-percent", "101"), "--alert-threshold-percent: 101 must be from 1 to 100"},
		"bounds of thresholds":      {"no threshold would be allowed", onFreePort(t.TempDir(), "--consumer-threshold-min-percent", "60", "--consumer-threshold-max-percent", "50"), "--consumer-threshold-max-percent: 50 must be at least the lowest percentage, 60"},
		"consumers of metrics":      {"", onFreePort(t.TempDir(), "--consumers-max", "-1"), "--consumers-max: -1 must not be negative"},
		"control planes":            {"", onFreePort(t.TempDir(), "--control-plane-interval", "1ms"), "--control-plane-interval: 1ms must be at least 1s"},
		"receiver":                  {"shows the form", onFreePort(t.TempDir(), "--request-notifications-url", "ftp://tickets"), "--request-notifications-url: must be of the form https://host/path"},
		"receiver with a password":  {"the error does not show it", onFreePort(t.TempDir(), "--request-notifications-url", "https://ann:pw@tickets"), "--request-notifications-url: must not have a user or a password"},
		"secret for nobody":         {"names the flag that is missing", onFreePort(t.TempDir(), "--request-notifications-secret-file", file), "--request-notifications-url: give the URL"},
		"no etcd":                   {"the etcd that was named does not answer", []string{"standalone", "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--etcd-servers", "http://127.0.0.1:1"}, "etcd at http://127.0.0.1:1 does not answer"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			wantRefusal(t, tt.reason, tt.want, tt.arguments...)
		})
	}
	if entries, err := os.ReadDir(foreign); err != nil || len(entries) != 1 {
		t.Errorf("the foreign directory holds %v, %v", entries, err)
	}
}

// onFreePort are the arguments of a server on a directory and a free port.
func onFreePort(dir string, more ...string) []string {
	return append([]string{"standalone", "--data-dir", dir, "--listen", "127.0.0.1:0"}, more...)
}

// TestVersion proves that both ways to ask for the version answer, in both binaries.
func TestVersion(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the binary")
	}
	t.Parallel()
	binary, err := process.Build()
	if err != nil {
		t.Fatal(err)
	}
	operator, err := process.BuildOperator()
	if err != nil {
		t.Fatal(err)
	}
	for _, binary := range []string{binary, operator} {
		for _, argument := range []string{"version", "--version"} {
			if output, err := exec.Command(binary, argument).CombinedOutput(); err != nil || string(output) != "unknown\n" {
				t.Errorf("%s %s: %v\n%s", filepath.Base(binary), argument, err, output)
			}
		}
	}
	if output, err := exec.Command(binary, "standalone", "--help").CombinedOutput(); err != nil || strings.Contains(string(output), "--version") {
		t.Errorf("the help of standalone: %v\n%s\nwant no flags of libraries", err, output)
	}
}

// TestDamage proves that a server reports damage of its etcd in one sentence, and that a killed server starts.
func TestDamage(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds and starts a server")
	}
	t.Parallel()
	killed := t.TempDir()
	process.Start(t, killed).Kill()
	// Sockets have no copies, and a killed server needs none.
	if err := os.RemoveAll(filepath.Join(killed, "etcd", "socket")); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		reason string
		file   string
		want   string
	}{
		"database": {"etcd would panic", "etcd/member-data/member/snap/db", "is damaged: etcd cannot read its database ("},
		"log":      {"etcd would exit without a word", "etcd/member-data/member/wal/0000000000000000-0000000000000000.wal", "is damaged: etcd cannot read its log ("},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(killed)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, tt.file), bytes.Repeat([]byte("garbage"), 10_000), 0o600); err != nil {
				t.Fatal(err)
			}
			wantRefusal(t, tt.reason, tt.want, "standalone", "--data-dir", dir, "--listen", "127.0.0.1:0")
		})
	}
	if code := process.Start(t, killed).Stop(); code != 0 {
		t.Errorf("after a kill, the server ended with exit code %d", code)
	}
}

// TestExternalEtcd proves three properties of a server on somebody else's etcd. It waits for a killed server with other
// settings. It keeps off others with such settings. And it ends when the servers with its settings take it for dead.
func TestExternalEtcd(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds and starts a server")
	}
	t.Parallel()
	url := etcd.Start(t)
	process.Start(t, t.TempDir(), "--etcd-servers", url, "--system-namespace", "elsewhere").Kill()
	server := process.Start(t, t.TempDir(), "--etcd-servers", url)
	if want := "waiting up to 15 s for it to end"; !strings.Contains(server.Output(), want) {
		t.Errorf("the server says\n%s\nwant %q", server.Output(), want)
	}
	wantRefusal(t, "each would move the buckets to its own namespace", "etcd at "+url+" is in use by another bursar standalone with "+
		"--system-namespace bursar-system, and this one has --system-namespace elsewhere; give all servers of one etcd the same",
		"standalone", "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--etcd-servers", url, "--system-namespace", "elsewhere")
	etcd.RevokeLease(t, url, "/bursar/standalone")
	if code := server.Wait(); code != 1 {
		t.Errorf("the server whose hold was taken away ended with exit code %d, want 1", code)
	}
	_, last, _ := strings.Cut(server.Output(), "admin.kubeconfig\n")
	if strings.Contains(last, "\n") || !strings.HasPrefix(last, "bursar: the hold on etcd at "+url+" was lost") {
		t.Errorf("at its end the server says\n%s\nwant one line that says that the hold was lost", last)
	}
}

// wantRefusal runs bursar. The command must end with one line on stderr and exit code 1.
func wantRefusal(t *testing.T, reason, want string, arguments ...string) {
	t.Helper()
	binary, err := process.Build()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, binary, arguments...)
	var stderr strings.Builder
	command.Stderr = &stderr
	_ = command.Run()
	if code := command.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	got := strings.TrimSpace(stderr.String())
	if !strings.HasPrefix(got, "bursar: ") || strings.Contains(got, "\n") || !strings.Contains(got, want) {
		t.Errorf("%s: stderr is\n%s\nwant one line that says %q", reason, got, want)
	}
}

// TestKubectl proves that `bursar kubectl` finds the running server. A second server on its directory does not start.
func TestKubectl(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds and starts a server")
	}
	runtimeDir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", runtimeDir)
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	t.Setenv("KUBECONFIG", "")
	dir := t.TempDir()
	binary, err := process.Build()
	if err != nil {
		t.Fatal(err)
	}
	if output, err := exec.Command(binary, "kubectl", "get", "namespaces").CombinedOutput(); err == nil || !strings.Contains(string(output), "no running server was found") {
		t.Errorf("without a server: %v\n%s", err, output)
	}
	server := process.Start(t, dir)
	if output, err := exec.Command(binary, "kubectl", "get", "namespaces", "-o", "name").CombinedOutput(); err != nil || !strings.Contains(string(output), "namespace/bursar-system") {
		t.Errorf("get namespaces: %v\n%s", err, output)
	}
	info, err := os.Stat(server.Kubeconfig())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the admin kubeconfig: %v, %v; want mode 0600", info, err)
	}
	output, err := exec.Command(binary, "standalone", "--data-dir", dir, "--listen", "127.0.0.1:0").CombinedOutput()
	if err == nil || !strings.Contains(string(output), "is in use by another bursar (process") {
		t.Errorf("a second server: %v\n%s", err, output)
	}
	config := server.Config()
	if code := server.Stop(); code != 0 {
		t.Errorf("exit code %d after SIGTERM:\n%s", code, server.Output())
	}
	t.Setenv("BURSAR_DATA_DIR", dir)
	wantRefusal(t, "kubectl would say it five times", fmt.Sprintf("the server of %s does not answer at %s: start it with bursar standalone --data-dir %s",
		server.Kubeconfig(), config.Host, dir), "kubectl", "get", "namespaces")
	if output, err := exec.Command(binary, "kubectl", "config", "view").CombinedOutput(); err != nil || !strings.Contains(string(output), config.Host) {
		t.Errorf("config view, which needs no server: %v\n%s", err, output)
	}
	if entries, err := os.ReadDir(runtimeDir); err != nil || len(entries) != 0 {
		t.Errorf("after the stop the runtime directory holds %v, %v", entries, err)
	}
}
