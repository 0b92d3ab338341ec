// Package operations follows the documentation for administrators, on a running operator.
package operations

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/controlplane"
	"github.com/bursar/bursar/test/process"
	"github.com/bursar/bursar/test/quiet"
)

// soon is generous, because other tests run beside this one.
const soon = 4 * time.Minute

func TestMain(m *testing.M) {
	quiet.Libraries()
	process.Parallel(4)
	os.Exit(m.Run())
}

// cluster is an API server with one replica of the operator, and an administrator at a shell.
type cluster struct {
	*testing.T
	binary, kubeconfig string
	// bin has the commands of the shell, where helm and scaling stop the operator.
	bin      string
	operator *exec.Cmd
	ended    chan struct{}
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("it builds and starts servers")
	}
	binary, err := process.Build()
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{T: t, binary: binary, kubeconfig: controlplane.Start(t).AdminKubeconfigPath(), bin: t.TempDir()}
	const stop = `pid=$(cat "$(dirname "$0")/pid"); kill "$pid"; while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done`
	c.write(filepath.Join(c.bin, "helm"), "#!/bin/sh\n"+stop+"\n")
	// Nobody asks about the operator's own user, so the administrator is another one.
	c.write(filepath.Join(c.bin, "kubectl"), fmt.Sprintf(`#!/bin/sh
if [ "$1 $2" = "scale deployment" ]; then %s; exit; fi
exec %s kubectl --kubeconfig %s --as jane --as-group system:masters "$@"
`, stop, c.binary, c.kubeconfig))
	c.write(filepath.Join(c.bin, "bursar"), fmt.Sprintf("#!/bin/sh\nKUBECONFIG=%s exec %s \"$@\"\n", c.kubeconfig, c.binary))
	c.start()
	return c
}

func (c *cluster) write(path, content string) {
	c.Helper()
	if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
		c.Fatal(err)
	}
}

// start starts the operator and waits until it is ready. It ends with the test, if nothing else ends it.
func (c *cluster) start() {
	c.Helper()
	dir, webhooks, endpoints := c.TempDir(), process.FreeAddress(c.T), process.FreeAddress(c.T)
	_, port, _ := strings.Cut(webhooks, ":")
	configuration := filepath.Join(dir, "config.yaml")
	c.write(configuration, fmt.Sprintf(`apiVersion: config.quota.miloapis.com/v1alpha1
kind: OperatorConfiguration
installCRDs: true
requestTimeout: %s
leaderElection: {leaseDuration: 15s, renewDeadline: 12s, retryPeriod: 300ms}
webhooks: {bindAddress: %q, url: 'https://localhost:%s', shutdownDelay: 0s}
endpoints: {bindAddress: %q}
`, process.RequestTimeout, webhooks, port, endpoints))
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		c.Fatal(err)
	}
	defer log.Close() //nolint:errcheck // the process has its own
	operator, ended := exec.Command(c.binary, "operator", "--config", configuration, "--kubeconfig", c.kubeconfig), make(chan struct{})
	operator.Stdout, operator.Stderr = log, log
	if err := operator.Start(); err != nil {
		c.Fatal(err)
	}
	c.operator, c.ended = operator, ended
	go func() {
		_ = operator.Wait()
		close(ended)
	}()
	c.Cleanup(func() {
		_ = operator.Process.Kill()
		<-ended
		if c.Failed() {
			text, _ := os.ReadFile(log.Name())
			c.Logf("the log of the operator:\n%s", text[max(0, len(text)-4000):])
		}
	})
	c.write(filepath.Join(c.bin, "pid"), fmt.Sprint(operator.Process.Pid))
	c.eventually(func() error {
		response, err := http.Get("http://" + endpoints + "/readyz")
		if err != nil {
			return err
		}
		defer response.Body.Close() //nolint:errcheck // it was only read
		if said, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
			return fmt.Errorf("the operator is not ready: %s %s", response.Status, said)
		}
		return nil
	})
}

// die ends the operator without a chance to finish.
func (c *cluster) die() {
	_ = c.operator.Process.Signal(syscall.SIGKILL)
	<-c.ended
}

func (c *cluster) eventually(check func() error) {
	c.Helper()
	await.NoError(c.T, soon, check)
}

// shell runs a script as the administrator, with additional environment variables.
func (c *cluster) shell(script string, environment ...string) (string, error) {
	command := exec.CommandContext(c.Context(), "bash", "-euo", "pipefail", "-c", script)
	command.Dir = "../../../.."
	command.Env = append(os.Environ(), "PATH="+c.bin+":"+os.Getenv("PATH"))
	command.Env = append(command.Env, environment...)
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	err := command.Run()
	return output.String(), err
}

// must runs a script that has to succeed.
func (c *cluster) must(script string, environment ...string) string {
	c.Helper()
	output, err := c.shell(script, environment...)
	if err != nil {
		c.Fatalf("%s\n%v\n%s", script, err, output)
	}
	return output
}

// finally runs a script until it succeeds.
func (c *cluster) finally(script string) {
	c.Helper()
	c.eventually(func() error {
		output, err := c.shell(script)
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", script, err, output)
		}
		return nil
	})
}

// refused runs a script. It has to fail and to say why.
func (c *cluster) refused(script, why string) {
	c.Helper()
	if output, err := c.shell(script); err == nil || !strings.Contains(output, why) {
		c.Errorf("%s\ngot %v and %q, want it to be refused: %s", script, err, output, why)
	}
}

// documented are the commands of a page under a name.
func documented(t *testing.T, page, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("../../../../docs", page))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)<!-- run by test/campaign/faults/operations: " + name + " -->\n```sh\n(.*?)```")
	var script strings.Builder
	for _, found := range block.FindAllStringSubmatch(string(content), -1) {
		script.WriteString(found[1])
	}
	if script.Len() == 0 {
		t.Fatalf("%s has no commands that are marked with %s", page, name)
	}
	return script.String()
}

// installPlatform installs the example of the quickstart, with one project where two may be.
func (c *cluster) installPlatform() {
	c.Helper()
	c.must(kinds)
	c.finally(declarations) // clients may not find an established kind at once
	c.must(projects)
}

const kinds = `
cd examples/quickstart
kubectl apply -f 1-kinds.yaml
kubectl wait --for=condition=Established --timeout=60s -f 1-kinds.yaml
`

const declarations = `
cd examples/quickstart
kubectl apply -f 2-registrations.yaml -f 3-policies.yaml -f 4-acme.yaml
`

const projects = `
cd examples/quickstart
kubectl wait --for=condition=Ready --timeout=60s -f 3-policies.yaml
kubectl wait --for=condition=Active --timeout=60s -n bursar-system resourcegrants.quota.miloapis.com/acme-starter
kubectl create -f project-web.yaml
kubectl apply -f - <<END
apiVersion: quota.miloapis.com/v1alpha1
kind: GrantCreationPolicy
metadata: {name: more}
spec:
  trigger: {resource: {apiVersion: resourcemanager.example.com/v1alpha1, kind: Organization}}
  target:
    resourceGrantTemplate:
      metadata: {name: "more-{{.trigger.metadata.name}}", namespace: bursar-system}
      spec:
        consumerRef: {apiGroup: resourcemanager.example.com, kind: Organization, name: "{{.trigger.metadata.name}}"}
        allowances: [{resourceType: core/configmaps, buckets: [{amount: 5}]}]
END
kubectl wait --for=create --timeout=60s -n bursar-system resourcegrants.quota.miloapis.com/more-acme
kubectl wait --for=create --timeout=60s -n bursar-system resourceclaims/project-web
`
