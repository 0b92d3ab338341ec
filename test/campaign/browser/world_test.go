package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/bursar/bursar/test/process"
)

// world is a standalone server with the platform of examples/console and three persons.
type world struct {
	binary, dir, root string
	address           string
	server            *exec.Cmd
	// tokens log the persons in.
	tokens map[string]string
}

// The persons. The tenant and the operator of the platform are ServiceAccounts, because a token logs them in at the
// server; the approver is in a group, and uses bursar console.
const (
	tenant        = "tom"
	approver      = "ann"
	administrator = "olivia"
)

// grants are the commands that give the persons their roles.
var grants = [][]string{
	{"create", "serviceaccount", tenant, "-n", "org-acme"},
	{"create", "serviceaccount", administrator, "-n", "org-acme"},
	{"create", "rolebinding", "tenant", "-n", "org-acme", "--clusterrole=bursar-tenant-admin", "--serviceaccount=org-acme:" + tenant},
	{"create", "rolebinding", "tenant-uses", "-n", "org-acme", "--clusterrole=cloud-user", "--serviceaccount=org-acme:" + tenant},
	{"create", "clusterrolebinding", "finance", "--clusterrole=bursar-quota-approver", "--group=finance"},
	{"create", "clusterrolebinding", "administrator", "--clusterrole=bursar-platform-admin", "--serviceaccount=org-acme:" + administrator},
	{"create", "clusterrolebinding", "administrator-reads", "--clusterrole=view", "--serviceaccount=org-acme:" + administrator},
}

func newWorld(binary string) (*world, error) {
	root, err := process.Root()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "bursar-browser-")
	if err != nil {
		return nil, err
	}
	address, err := process.FindFreeAddress()
	if err != nil {
		return nil, err
	}
	w := &world{binary: binary, dir: dir, root: root, address: address, tokens: map[string]string{}}
	w.server = exec.Command(binary, "standalone", "--data-dir", filepath.Join(dir, "data"), "--listen", address, "--consumer-namespace", "Organization.cloud.example.com=org-{{name}}")
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	w.server.Stdout, w.server.Stderr = log, log
	if err := w.server.Start(); err != nil {
		return nil, err
	}
	if err := w.furnish(); err != nil {
		printed, _ := os.ReadFile(log.Name())
		w.close()
		return nil, fmt.Errorf("%w\nthe server printed:\n%s", err, printed)
	}
	return w, nil
}

// furnish makes the platform and the persons.
func (w *world) furnish() error {
	if err := w.until(func() error { _, err := w.kubectl("get", "--raw", "/readyz"); return err }); err != nil {
		return err
	}
	for _, file := range []string{"1-platform.yaml", "2-registrations.yaml", "3-policies.yaml"} {
		if err := w.until(func() error {
			_, err := w.kubectl("apply", "-f", filepath.Join(w.root, "examples/console", file))
			return err
		}); err != nil {
			return err
		}
	}
	for _, what := range []string{"claimcreationpolicy/machines", "grantcreationpolicy/plan-gold"} {
		if _, err := w.kubectl("wait", "--for=condition=Ready", what, "--timeout=60s"); err != nil {
			return err
		}
	}
	for _, file := range []string{"4-organizations.yaml", "5-machines.yaml"} {
		// The machines fit once the grants of the plan count.
		if err := w.until(func() error {
			_, err := w.kubectl("apply", "-f", filepath.Join(w.root, "examples/console", file))
			return err
		}); err != nil {
			return err
		}
	}
	for _, command := range grants {
		if _, err := w.kubectl(command...); err != nil {
			return err
		}
	}
	for _, person := range []string{tenant, administrator} {
		token, err := w.kubectl("create", "token", person, "-n", "org-acme", "--duration=2h")
		if err != nil {
			return err
		}
		w.tokens[person] = strings.TrimSpace(token)
	}
	return nil
}

// kubeconfig is the path of the administrator's kubeconfig.
func (w *world) kubeconfig() string { return filepath.Join(w.dir, "data", "admin.kubeconfig") }

// kubectl runs kubectl as the administrator of the server.
func (w *world) kubectl(arguments ...string) (string, error) {
	command := exec.Command(w.binary, append([]string{"kubectl"}, arguments...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+w.kubeconfig())
	output, err := command.CombinedOutput()
	if err != nil {
		return string(output), fmt.Errorf("kubectl %s: %w\n%s", strings.Join(arguments, " "), err, output)
	}
	return string(output), nil
}

// as runs kubectl with the token of a person.
func (w *world) as(person string, arguments ...string) (string, error) {
	return w.kubectl(append([]string{"--as", "system:serviceaccount:org-acme:" + person}, arguments...)...)
}

// until repeats a check until it succeeds.
func (w *world) until(check func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(context.Background(), 100*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil {
		return last
	}
	return nil
}

func (w *world) close() {
	_ = w.server.Process.Signal(os.Interrupt)
	_ = w.server.Wait()
	_ = os.RemoveAll(w.dir)
}
