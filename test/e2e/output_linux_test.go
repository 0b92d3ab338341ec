package e2e

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/commands"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/journal"
	journallines "github.com/bursar/bursar/internal/journal/lines"
)

var updateOutput = flag.Bool("update-output", false, "write what commands print to testdata/output instead of comparing it")

// screens are the outputs of commands, by the names of their golden files: the columns of a terminal, or 0 for none,
// and variables of the environment.
var screens = map[string]struct {
	columns     uint16
	environment map[string]string
}{
	"plain":   {0, nil},
	"narrow":  {80, nil},
	"wide":    {200, nil},
	"nocolor": {100, map[string]string{"NO_COLOR": "1"}},
	"dumb":    {100, map[string]string{"TERM": "dumb"}},
	"ascii":   {100, map[string]string{"LC_ALL": "C"}},
}

// TestCommandOutput compares the plugin's output, on terminals and elsewhere, with golden files. It runs by itself,
// because it sets the environment.
func TestCommandOutput(t *testing.T) {
	w := newProtectedWorld(t, 4)
	w.nameForPeople("Settings", "ConfigMaps of an Organization", "settings.example.com")
	later := metav1.Now().AddDate(1, 0, 0)
	trial := w.grant("trial", 1)
	change(t, trial, func(grant *quotav1alpha1.ResourceGrant) { grant.Spec.NotAfter = new(metav1.NewTime(later)) })
	for _, name := range []string{"a", "b", "c"} {
		w.mustCreate(w.configMap(name))
	}
	w.mustCreate(w.claim("large", 1))
	waits := w.claim("waits", 5)
	waits.Labels = map[string]string{"team": "web"}
	w.mustCreate(waits)
	w.waitCondition(waits, quotav1alpha1.ConditionGranted, metav1.ConditionFalse)
	w.wantBucket(5, 4, 1, 4)
	w.waitShown(5, 4)
	journalFile := w.writeJournal()
	for screen := range screens {
		t.Run(screen, func(t *testing.T) { w.wantOutput(t, screen, journalFile) })
	}
	w.wantDecisions()
}

// output runs the plugin against the shared server, and returns its output on a terminal with so many columns, or on
// none.
func (w *world) output(t *testing.T, columns uint16, input string, arguments ...string) string {
	t.Helper()
	if arguments[0] != "__complete" {
		arguments = append(slices.Clone(arguments), "--kubeconfig", started.Kubeconfig)
	}
	p := cli.Plugin("test")
	root := cli.New(p, commands.All(p)...)
	root.SetArgs(arguments)
	root.SetIn(strings.NewReader(input))
	var plain bytes.Buffer
	var out io.Writer = &plain
	printed := plain.String
	if columns > 0 {
		out, printed = openTerminal(t, columns)
	}
	root.SetOut(out)
	var others bytes.Buffer
	root.SetErr(&others)
	err := root.ExecuteContext(w.ctx)
	text := printed() + others.String()
	if err != nil {
		text += "error: " + cli.Words(root, err.Error()) + "\n"
	}
	return normalOutput(text)
}

// These texts differ from run to run. by replaces them in the golden files.
var changing = []struct {
	found *regexp.Regexp
	by    string
}{
	{regexp.MustCompile(`\b[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z`), "2006-01-02T15:04:05Z"},
	{regexp.MustCompile(` [0-9]+s( |$)`), " 1s$1"},
	{regexp.MustCompile(`("?(?:uid|resourceVersion|generation)"?: ).*`), "${1}..."},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}`), "00000000-0000-0000-0000-000000000000"},
	{regexp.MustCompile(`"?observedGeneration"?: [0-9]+`), "observedGeneration: 1"},
}

func normalOutput(text string) string {
	for _, c := range changing {
		text = c.found.ReplaceAllString(text, c.by)
	}
	return strings.ReplaceAll(text, "\x1b", "ESC")
}

// writeJournal writes the journal of a week, and returns its path.
func (w *world) writeJournal() string {
	w.Helper()
	path := filepath.Join(w.TempDir(), "journal.jsonl")
	file, err := os.Create(path)
	must(w, err)
	defer func() { must(w, file.Close()) }()
	start := time.Date(2026, time.March, 2, 9, 0, 0, 0, time.UTC)
	entries := []journal.Entry{
		{Kind: journal.Opened, Opening: &journal.Opening{}},
		{Kind: journal.LimitChanged, Change: 4, Limit: 4, Grant: w.name + "/base", Actor: "ann"},
	}
	for i, name := range []string{"a", "b", "c"} {
		entries = append(entries, journal.Entry{
			Kind: journal.Admitted, Change: 1, Used: int64(i) + 1, Limit: 4, Actor: "tom", Claim: w.name + "/" + name,
			Object: &journal.Object{Kind: "ConfigMap", Namespace: w.name, Name: name},
		})
	}
	entries = append(entries, journal.Entry{Kind: journal.LimitChanged, Change: 1, Used: 3, Limit: 5, Grant: w.name + "/trial", Actor: "ann"})
	for i := range entries {
		e := &entries[i]
		e.Consumer, e.Sequence, e.Time = w.consumer(), int64(i)+1, start.Add(time.Duration(i)*24*time.Hour)
		if e.Opening == nil {
			e.ResourceType = w.resourceType()
		}
	}
	must(w, journallines.NewWriter(file).Append(w.ctx, entries))
	return path
}

// wantOutput compares the output of commands without effect on a screen.
func (w *world) wantOutput(t *testing.T, screen, journalFile string) {
	t.Setenv("LC_ALL", "C.UTF-8")
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	for name, value := range screens[screen].environment {
		t.Setenv(name, value)
	}
	who, object := "organization/"+w.name, "{apiVersion: v1, kind: ConfigMap, metadata: {name: d, namespace: "+w.name+"}}"
	objectFile := filepath.Join(t.TempDir(), "object.yaml") // kubectl's reader of files takes no other standard input
	must(t, os.WriteFile(objectFile, []byte(object), 0o600))
	type line struct {
		input     string
		arguments []string
	}
	typed := []line{
		{"", []string{"usage", "--consumer", who}},
		{"", []string{"usage", "--consumer", who, "-o", "wide"}},
		{"", []string{"usage", "--consumer", who, "--claims"}},
		{"", []string{"usage", "--consumer", who, "--claims", "-l", "team=web"}},
		{"", []string{"tree", who}},
		{"", []string{"tree", who, "--number", "2"}},
		{"", []string{"tree", who, "-l", "team=web"}},
		{"", []string{"who", w.resourceType()}},
		{"", []string{"plan", "-f", objectFile}},
		{object, []string{"why", "-f", "-"}},
		{"", []string{"requests", "-n", w.name}},
		{"", []string{"history", who, "--journal", journalFile, "--until", "2026-03-08"}},
		{"", []string{"top", "--journal", journalFile, "--since", "2026-03-01", "--until", "2026-03-08"}},
	}
	if screens[screen].columns == 0 {
		for _, format := range []string{"json", "yaml", "jsonpath={.items[*].used}", "custom-columns=WHO:.consumerRef.name,USED:.used", "go-template={{len .items}}", "name"} {
			typed = append(typed, line{"", []string{"usage", "--consumer", who, "-o", format}})
		}
		typed = append(
			typed,
			line{"", []string{"tree", who, "-o", "yaml"}},
			line{"", []string{"tree", who, "--ascii", "-o", "wide"}},
			line{"", []string{"who", w.resourceType(), "-o", "wide"}},
			line{"", []string{"who", w.resourceType(), "-o", "yaml"}},
			line{"", []string{"who", "testcommandoutput/configmap"}},
			line{object, []string{"why", "-f", "-", "-o", "yaml"}},
			line{"", []string{"plan", "-f", objectFile, "-o", "custom-columns=RESULT:.result"}},
			line{"", []string{"plan", "-f", objectFile, "-o", "wide"}},
			line{"", []string{"policy", "backtest", w.name}},
		)
	}
	var all strings.Builder
	for _, l := range typed {
		fmt.Fprintf(&all, "$ kubectl bursar %s\n%s\n", strings.Join(l.arguments, " "), w.output(t, screens[screen].columns, l.input, l.arguments...))
	}
	golden(t, screen, strings.NewReplacer(journalFile, "journal.jsonl", objectFile, "object.yaml").Replace(all.String()))
}

// wantDecisions compares the output of commands with an effect, without a terminal.
func (w *world) wantDecisions() {
	who, ns := "organization/"+w.name, config.DefaultSystemNamespace
	tom, ann := []string{"--as", "tom", "--as-group", "system:masters"}, []string{"--as", "ann", "--as-group", "system:masters"}
	var all strings.Builder
	for _, arguments := range [][]string{
		slices.Concat([]string{"request", "configmaps=+2", "--for", who, "-n", ns, "--reason", "a release", "--name", "ask-one"}, tom),
		slices.Concat([]string{"request", "configmaps=+3", "--for", who, "-n", ns, "--reason", "more", "--name", "ask-two", "-o", "name"}, tom),
		{"requests", "-n", ns, "-o", `jsonpath={.items[?(@.spec.consumerRef.name=="` + w.name + `")].metadata.name}`},
		slices.Concat([]string{"approve", "ask-one", "-n", ns, "configmaps=1"}, ann),
		slices.Concat([]string{"deny", "ask-two", "-n", ns, "--reason", "not now", "-o", "jsonpath={.status.conditions[0].reason}"}, ann),
		{"extend", "trial", "-n", w.name, "--by", "30d"},
		{"extend", "trial", "-n", w.name, "--by", "30d", "-o", "name"},
	} {
		fmt.Fprintf(&all, "$ kubectl bursar %s\n%s\n", strings.Join(arguments, " "), w.output(w.T, 0, "", arguments...))
	}
	golden(w.T, "decisions", all.String())
}

// golden compares a text with a golden file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "output", name+".txt")
	if *updateOutput {
		must(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the output changed; if that is right, run the test with -update-output (-want +got):\n%s", diff)
	}
}

// TestCompletion makes sure completions of flags and arguments come from the server.
func TestCompletion(t *testing.T) {
	t.Setenv("KUBECONFIG", started.Kubeconfig)
	w := newProtectedWorld(t, 2)
	w.waitShown(2, 0)
	short := strings.TrimSuffix(w.name, "etion")
	for want, line := range map[string][]string{
		"organization/" + w.name:       {"tree", "organization/" + short},
		w.resourceType():               {"who", short},
		"organization/" + w.name + " ": {"request", "--for", "organization/" + short},
		"configmaps=":                  {"request", "configm"},
		w.name:                         {"policy", "backtest", short},
		w.name + " ":                   {"why", "-n", short},
		"base":                         {"extend", "-n", w.name, "ba"},
		"Organization." + w.consumer().APIGroup + "/" + w.name: {"history", "Organization." + w.consumer().APIGroup + "/" + short},
		"custom-columns=": {"requests", "-o", "cus"},
		"Denied":          {"requests", "--state", "De"},
		"waiting":         {"usage", "--sort-by", "w"},
		"usage\tShow quota usage by consumer, the most used first":   {"us"},
		"--consumer\tonly the consumer with this NAME, or KIND/NAME": {"who", "x", "--cons"},
		"wide": {"tree", "-o", "w"},
	} {
		output := w.output(t, 0, "", append([]string{"__complete"}, line...)...)
		if first, _, _ := strings.Cut(output, "\n"); first != strings.TrimSuffix(want, " ") {
			t.Errorf("%v is completed with %q, want %q", line, output, want)
		}
	}
}
