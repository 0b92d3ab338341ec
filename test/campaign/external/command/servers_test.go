package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/process"
)

// shell runs bursar as one user of one machine, with the test's own files.
type shell struct {
	*testing.T
	binary string
}

func newShell(t *testing.T) shell {
	t.Helper()
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
	return shell{t, binary}
}

// run has to succeed. It returns the text on both outputs.
func (s shell) run(arguments ...string) (stdout, stderr string) {
	s.Helper()
	var printed, complaints strings.Builder
	command := exec.CommandContext(s.Context(), s.binary, arguments...)
	command.Stdout, command.Stderr = &printed, &complaints
	if err := command.Run(); err != nil {
		s.Fatalf("bursar %s: %v\n%s%s", strings.Join(arguments, " "), err, printed.String(), complaints.String())
	}
	return printed.String(), complaints.String()
}

// TestSeveralServers proves that commands write nothing to a server without its name, and name the server that they
// read from.
func TestSeveralServers(t *testing.T) {
	s := newShell(t)
	first, second := t.TempDir(), t.TempDir()
	process.Start(t, first)
	if _, complaints := s.run("kubectl", "create", "configmap", "mine"); complaints != "" {
		t.Errorf("with one server kubectl says %q", complaints)
	}
	server := process.Start(t, second)
	_, complaints := s.run("kubectl", "get", "configmaps", "-n", "default")
	if want := "bursar: using the server on " + second + ", the last started of 2; choose another with BURSAR_DATA_DIR=DIR\n"; !strings.HasPrefix(complaints, want) {
		t.Errorf("kubectl get says %q, want %q", complaints, want)
	}
	for _, command := range []string{"kubectl -n default delete configmap mine", "kubectl unheard-of", "user create alice --namespace default --role view"} {
		wantRefusal(t, "it could be the wrong one", "2 servers run, on ", strings.Fields(command)...)
	}
	t.Setenv("BURSAR_DATA_DIR", first)
	s.run("kubectl", "delete", "configmap", "mine")
	t.Setenv("BURSAR_DATA_DIR", "")
	server.Kill()
	if _, complaints := s.run("kubectl", "create", "configmap", "mine"); complaints != "" {
		t.Errorf("with one server left kubectl says %q", complaints)
	}
}

// TestSettings proves that a server keeps the settings of its first start until somebody changes them on purpose.
func TestSettings(t *testing.T) {
	newShell(t)
	dir := filepath.Join(t.TempDir(), "data")
	file := filepath.Join(dir, "config.yaml")
	const template, other = "Project.example.com=project-{{name}}", "Project.example.com=other-{{name}}"
	start := func(arguments ...string) string {
		t.Helper()
		server := process.Start(t, dir, arguments...)
		if code := server.Stop(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		return server.Output()
	}
	want := func(listed string) {
		t.Helper()
		content, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(content), "\n"+listed+"\n") {
			t.Errorf("the settings are\n%s%v\nwant them to hold %q", content, err, listed)
		}
	}
	start("--consumer-namespace", template, "--alert-threshold-percent", "50")
	want("consumer-namespace:\n- " + template)
	want("system-namespace: bursar-system")
	want(`alert-threshold-percent: "50"`)
	if said := start(); strings.Contains(said, "--consumer-namespace") {
		t.Errorf("with the same settings the server says\n%s", said)
	}
	if said, want := start("--consumer-namespace", other), "bursar: --consumer-namespace is ["+other+"] for this start, and ["+template+"] in "+file+"; --save keeps the new value"; !strings.Contains(said, want) {
		t.Errorf("with another setting the server says\n%s\nwant %q", said, want)
	}
	want("consumer-namespace:\n- " + template)
	start("--consumer-namespace", other, "--save")
	want("consumer-namespace:\n- " + other)

	unready := t.TempDir()
	wantRefusal(t, "it cannot keep a journal", "not a directory", onFreePort(unready, "--journal", filepath.Join(file, "journal"))...)
	if _, err := os.Stat(filepath.Join(unready, "config.yaml")); !os.IsNotExist(err) {
		t.Errorf("a server that was never ready kept its settings: %v", err)
	}

	if err := os.WriteFile(file, []byte("listn: 127.0.0.1:0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, "a slip must not be a default", file+`: there is no setting "listn"; did you mean listen?`, "standalone", "--data-dir", dir)
	if err := os.WriteFile(file, []byte("consumer-namespace: foo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, "names the setting", file+": consumer-namespace: it must be a list", "standalone", "--data-dir", dir)

	log, err := os.ReadFile(filepath.Join(dir, "logs", "bursar.log"))
	if err != nil || !strings.Contains(string(log), "component=bursar") {
		t.Errorf("the log holds no line of Bursar: %v\n%s", err, log)
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "component=kubernetes") && strings.Contains(line, "level=INFO") || strings.Contains(line, "createTransport") || strings.Contains(line, "StatusError") {
			t.Errorf("the log holds noise: %s", line)
		}
	}
}

// TestUserCreate gives a tenant a kubeconfig with the permissions of its role, and no others.
func TestUserCreate(t *testing.T) {
	s := newShell(t)
	for _, tt := range []struct{ arguments, want string }{
		{"user create", "give the name of one user"},
		{"user create alice --role edit", "either --namespace NAMESPACE or --all-namespaces"},
		{"user create alice --namespace shop", "--role is missing"},
		{"user create alice --namespace shop --rle edit", "unknown flag: --rle; did you mean --role?"},
	} {
		wantRefusal(t, "it says what is missing", tt.want, strings.Fields(tt.arguments)...)
	}
	process.Start(t, t.TempDir())
	for _, tt := range []struct{ arguments, want string }{
		{"user create alice --namespace shop --role edit", "namespace shop does not exist: create it first"},
		{"user create alice --namespace default --role edits", "there is no ClusterRole edits; choose view, edit"},
		{"user create system:alice --namespace default --role edit", "names that begin with system: are for Kubernetes itself"},
		{"user create alice --namespace default --role edit --lifetime 1m", "a certificate must be valid for at least 10m"},
	} {
		wantRefusal(t, "it says what is wrong", tt.want, strings.Fields(tt.arguments)...)
	}
	s.run("kubectl", "create", "namespace", "shop")
	for range 2 { // again for another certificate
		kubeconfig, _ := s.run("user", "create", "alice@example.com", "--namespace", "shop", "--role", "edit")
		path := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(path, []byte(kubeconfig), 0o600); err != nil {
			t.Fatal(err)
		}
		if who, _ := s.run("kubectl", "--kubeconfig", path, "auth", "whoami"); !strings.Contains(who, "alice@example.com") {
			t.Errorf("the user is\n%s", who)
		}
		canI := func(arguments string) string {
			output, _ := exec.Command(s.binary, append([]string{"kubectl", "--kubeconfig", path, "auth", "can-i"}, strings.Fields(arguments)...)...).Output()
			return strings.TrimSpace(string(output))
		}
		await.NoError(t, time.Minute, func() error { // once the API server has seen the new RoleBinding
			if got := canI("create configmaps"); got != "yes" {
				return fmt.Errorf("kubectl auth can-i create configmaps: %s", got)
			}
			return nil
		})
		s.run("kubectl", "--kubeconfig", path, "get", "resourceclaims.quota.miloapis.com") // in its own namespace
		for arguments, want := range map[string]string{"create configmap mine --dry-run=server": "yes", "create configmaps": "yes", "create configmaps -n default": "no", "list configmaps -A": "no", "get secrets -n default": "no"} {
			if strings.Contains(arguments, "--dry-run") {
				s.run(append([]string{"kubectl", "--kubeconfig", path}, strings.Fields(arguments)...)...)
				continue
			}
			if got := canI(arguments); got != want {
				t.Errorf("kubectl auth can-i %s: %s, want %s", arguments, got, want)
			}
		}
	}
	if left, _ := s.run("kubectl", "get", "certificatesigningrequests", "-o", "name"); left != "" {
		t.Errorf("it leaves behind %s", left)
	}
}

// TestSlips proves that an error for a slip shows the right form.
func TestSlips(t *testing.T) {
	newShell(t)
	for arguments, want := range map[string]string{
		"standalone --dta-dir x": "unknown flag: --dta-dir; did you mean --data-dir?",
		"standalone --nope":      "unknown flag: --nope; see bursar standalone --help",
		"standalone extra":       `bursar standalone takes no arguments, but got "extra"; see bursar standalone --help`,
		"usage web":              `bursar usage takes no argument "web": for one consumer, bursar usage --consumer web`,
	} {
		wantRefusal(t, "it says what is meant", want, strings.Fields(arguments)...)
	}
}

// TestCompletion proves the completion of the values of flags, also those of kubectl.
func TestCompletion(t *testing.T) {
	s := newShell(t)
	process.Start(t, t.TempDir())
	s.run("kubectl", "apply", "-f", filepath.Join("testdata", "usage.yaml"))
	for _, tt := range []struct{ typed, want string }{
		{"usage --type ", "compute.example.com/vcpus\n"},
		{"usage --consumer ", "project/shop\n"},
		{"usage -n ", "shop\n"},
		{"user create alice -n s", "shop\n"},
		{"user create alice --role vi", "view\n"},
		{"kubectl get namespaces s", "shop\n"},
		{"kubectl get serviceac", "serviceaccounts\n"},
	} {
		await.NoError(t, time.Minute, func() error { // a grant shows a moment later
			words := strings.Split(tt.typed, " ")
			got, _ := s.run(append([]string{"__complete"}, words...)...)
			if !strings.Contains("\n"+got, "\n"+tt.want) {
				return fmt.Errorf("bursar %s is completed by\n%s\nwant %s", tt.typed, got, tt.want)
			}
			return nil
		})
	}
}

// TestStatus proves that a healthy server has no failed check, and that bursar status names each failed check, with
// exit code 1.
func TestStatus(t *testing.T) {
	s := newShell(t)
	process.Start(t, t.TempDir())
	said, _ := s.run("status")
	for _, want := range []string{"server       ok       standalone server v1.", "webhooks     ok ", "certificate  ok       none is needed", "leader       ok       this server, the only one", "policies     ok       0 enabled", "ledgers      ok ", "journal      ok       stored in "} {
		if !strings.Contains("\n"+said, "\n"+want) {
			t.Errorf("the status is\n%s\nwant %q", said, want)
		}
	}
	s.run("kubectl", "apply", "-f", filepath.Join("testdata", "failing.yaml"))
	await.NoError(t, time.Minute, func() error {
		output, err := exec.Command(s.binary, "status").CombinedOutput()
		if err == nil || !strings.Contains(string(output), "policies     FAILED   1 enabled, 0 disabled\n                      ClaimCreationPolicy nothing: Ready=False: ") ||
			!strings.HasSuffix(string(output), "bursar: 1 of 10 checks failed\n") {
			return fmt.Errorf("the status is %v\n%s", err, output)
		}
		return nil
	})
}
