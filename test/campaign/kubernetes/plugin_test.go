package kubernetes

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/bursar/bursar/test/process"
)

// testPlugin asks with the plugin of kubectl for the usage, and why Bursar would deny a Pod.
func testPlugin(n *team) {
	n.grant(map[string]int64{pods: 1, memory: 100 * mebibyte})
	n.create(n.pod("web", 10))
	n.wantAllocated(pods, 1, 1)
	for _, asked := range []struct{ command, want string }{
		{"usage --consumer Organization/" + n.name, pods + " 1 pods 1 pods 0 pods 100%"},
		{"why pod/web -n " + n.name, "Organization " + n.name},
		{"tree Organization/" + n.name, "team-plugin/Pod/web 1 pod Granted"},
	} {
		n.eventually(func() error { // the buckets follow the ledger
			printed, err := n.plugin(strings.Fields(asked.command)...)
			if err != nil {
				return fmt.Errorf("kubectl bursar %s: %w\n%s", asked.command, err, printed)
			}
			if got := strings.Join(strings.Fields(printed), " "); !strings.Contains(got, asked.want) {
				return fmt.Errorf("kubectl bursar %s prints %q, want %q in it", asked.command, got, asked.want)
			}
			return nil
		})
	}
}

// plugin runs the plugin as the administrator of the cluster, and returns its output.
func (n *team) plugin(arguments ...string) (string, error) {
	n.Helper()
	binary, err := process.BuildPlugin()
	if err != nil {
		n.Fatal(err)
	}
	command := exec.CommandContext(n.Context(), binary, arguments...)
	command.Env = append(os.Environ(), "KUBECONFIG="+n.Servers[0].Kubeconfig("admin", "system:masters"))
	printed, err := command.CombinedOutput()
	return string(printed), err
}
