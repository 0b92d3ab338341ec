package enhancement

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/test/await"
)

const (
	policies = "test/campaign/external/enhancement/testdata/policies.yaml"
	columns  = "testdata/columns.txt"
)

var (
	update  = flag.Bool("update", false, "write "+columns)
	ages    = regexp.MustCompile(`\b([0-9]+m[0-9]*s?|[0-9]+s)\b`)
	spacing = regexp.MustCompile(` {2,}`)
)

// tables shows every kind as people see it, also by -o wide.
func (p *platform) tables() string {
	var text strings.Builder
	for _, kind := range []string{"rreg", "rgrant", "rclaim", "ccp", "gcp", "abucket", "ergrant", "rqalloc", "lrqalloc"} {
		for _, wide := range []bool{false, true} {
			arguments := []string{"get", kind, "-A"}
			if wide {
				arguments = append(arguments, "-o", "wide")
			}
			fmt.Fprintf(&text, "$ kubectl %s\n", strings.Join(arguments, " "))
			for line := range strings.Lines(p.kubectl(arguments...)) {
				line = spacing.ReplaceAllString(ages.ReplaceAllString(strings.TrimRight(line, " \n"), "0s"), "  ")
				text.WriteString(line + "\n")
			}
			text.WriteString("\n")
		}
	}
	return text.String()
}

// checkColumns proves that "kubectl get" answers the question of each kind.
func (p *platform) checkColumns() {
	p.kubectl("apply", "-f", policies)
	p.kubectl("wait", "--for=condition=Adopted", "--timeout=60s", "ccp/projects")
	p.kubectl("wait", "--for=jsonpath={.status.grants}=1", "--timeout=60s", "gcp/instances")
	p.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "rqalloc/secrets")
	if *update {
		p.wantDisplayedSoon("org-abc", "6 projects")
		if err := os.WriteFile(columns, []byte(p.tables()), 0o644); err != nil {
			p.Fatal(err)
		}
	}
	want, err := os.ReadFile(columns)
	if err != nil {
		p.Fatal(err)
	}
	await.NoError(p.T, soon, func() error {
		if diff := cmp.Diff(string(want), p.tables()); diff != "" {
			return fmt.Errorf("the tables are (-%s +here):\n%s", columns, diff)
		}
		return nil
	})
}

// wantDisplayedSoon waits until an effective grant of a namespace shows this much as allocated.
func (p *platform) wantDisplayedSoon(namespace, allocated string) {
	await.NoError(p.T, soon, func() error {
		if got := p.kubectl("get", "ergrant", "-n", namespace); !strings.Contains(got, allocated) {
			return fmt.Errorf("got\n%s", got)
		}
		return nil
	})
}
