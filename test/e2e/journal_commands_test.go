package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bursar/bursar/test/process"
)

// The commands on the journal exit with 0 unless something is wrong, or a limit would have denied a create.
func TestJournalCommands(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 2)
	w.mustCreate(w.configMap("a"))
	w.mustCreate(w.configMap("b"))
	ann := newPerson(t, "ann")
	consumer := "organization." + w.consumer().APIGroup + "/" + w.name
	full := "Organization." + w.consumer().APIGroup + "/" + w.name
	eventually(t, func() error {
		return wantPrinted(ann, "used 2 maps of 2 maps", "history", full)
	})
	empty := t.TempDir()
	tests := map[string]struct {
		reason    string
		succeeds  bool
		texts     []string
		arguments []string
	}{
		"History":          {"a chart and the changes", true, []string{"raised from 0 maps to 2 maps by admin", "ConfigMap " + w.name + "/b", "admitted"}, []string{"history", full}},
		"HistoryASCII":     {"without other characters", true, []string{"|"}, []string{"history", full, "--ascii"}},
		"HistoryJSON":      {"for scripts", true, []string{`"limitChanges"`, `"actor": "admin"`}, []string{"history", full, "-o", "json"}},
		"HistoryNamespace": {"any namespace where one may ask", true, []string{"admitted"}, []string{"history", full, "-n", w.name}},
		"HistoryNobody":    {"an unknown consumer is an error", false, []string{w.name + "-nobody"}, []string{"history", consumer + "-nobody"}},
		"HistoryTwo":       {"one consumer at a time", false, []string{"name one consumer, as KIND/NAME"}, []string{"history", full, full}},
		"HistoryFormat":    {"an unknown format", false, []string{"--output: there is no format \"xml\"; choose json, yaml"}, []string{"history", full, "-o", "xml"}},
		"HistoryFuture":    {"nothing is known of the future", false, []string{"--since: ", "is in the future"}, []string{"history", full, "--since", "2999-01-01"}},
		"Limits":           {"who changed which limit", true, []string{"CHANGED BY", "0 maps   2 maps   " + w.name + "/base   admin"}, []string{"history", "--limits", full}},
		"TopBy":            {"what cannot be compared", false, []string{"--by"}, []string{"top", "--by", "size"}},
		"TopNumber":        {"no rows", false, []string{"--number: give a number of 1 or more"}, []string{"top", "--number", "0"}},
		"TopArgument":      {"no argument", false, []string{"for one consumer, bursar top --consumer " + full}, []string{"top", full}},
		"TopConsumer":      {"one consumer", true, []string{"+2 maps"}, []string{"top", "--consumer", full}},
		"TopNobody":        {"an unknown consumer is an error", false, []string{"check the name"}, []string{"top", "--consumer", full + "-nobody"}},
		"HistoryConsumer":  {"the flag of the other commands", true, []string{"raised from 0 maps to 2 maps by admin"}, []string{"history", "--consumer", full}},
		"HistoryTwice":     {"one consumer at a time", false, []string{"name one consumer: " + full + " or --consumer " + full}, []string{"history", full, "--consumer", full}},
		"HistoryType":      {"an unknown resource type is an error", false, []string{"the journal has no entry of a resource type mops; it has those of " + w.resourceType()}, []string{"history", full, "--resource-type", "mops"}},
		"Showback":         {"amount-hours", true, []string{"used_amount_hours", w.name + ",,"}, []string{"showback", "--consumer", full}},
		"ShowbackStep":     {"an unknown period", false, []string{"--step"}, []string{"showback", "--step", "week"}},
		"BacktestEnough":   {"a limit that denies nothing", true, []string{"would have denied"}, []string{"backtest", "--limit", w.resourceType() + "=2", "--consumer", full}},
		"BacktestDenies":   {"a limit that denies something fails", false, []string{"These limits would have denied 1 of 2 creates."}, []string{"backtest", "--limit", w.resourceType() + "=1", "--consumer", full}},
		"BacktestNothing":  {"no limit", false, []string{"--limit"}, []string{"backtest"}},
		"NoSuchJournal":    {"a folder that is missing", false, []string{"there is no journal at"}, []string{"history", "--journal", filepath.Join(empty, "missing")}},
		"EmptyJournal":     {"a folder without entries", false, []string{"has no files of a journal"}, []string{"history", "--journal", empty, "--since", "30d"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			(&person{t, ann.binary, ann.kubeconfig}).want(tt.succeeds, tt.texts, tt.arguments...)
		})
	}
	for name, tt := range map[string]struct {
		reason string
		limit  string
		want   int
	}{
		"Enough": {"nothing would have been denied", w.resourceType() + "=2", 0},
		"Denies": {"something would have been denied", w.resourceType() + "=1", 1},
		"Failed": {"there is no answer", "none/such=1", 2},
		"Wrong":  {"there is no question", "maps", 2},
	} {
		command := exec.CommandContext(t.Context(), ann.binary, "backtest", "--consumer", full, "--limit", tt.limit)
		command.Env = append(os.Environ(), "KUBECONFIG="+ann.kubeconfig)
		if output, _ := command.CombinedOutput(); command.ProcessState.ExitCode() != tt.want {
			t.Errorf("%s: %s: got exit code %d, want %d: %s", name, tt.reason, command.ProcessState.ExitCode(), tt.want, output)
		}
	}
	for name, tt := range map[string]struct {
		line []string
		want string
	}{
		"Consumer":  {[]string{"history", "Organization." + w.consumer().APIGroup + "/" + w.name}, full},
		"Type":      {[]string{"top", "--resource-type", w.name}, w.resourceType()},
		"By":        {[]string{"top", "--by", "l"}, "limit"},
		"Step":      {[]string{"showback", "--step", ""}, "day"},
		"Namespace": {[]string{"backtest", "-n", "bursar"}, "bursar-system"},
		"Output":    {[]string{"top", "-o", "y"}, "yaml"},
	} {
		output, _ := ann.run("", append([]string{"__complete"}, tt.line...)...)
		if first, _, _ := strings.Cut(output, "\n"); first != tt.want {
			t.Errorf("%s: %v is completed with %q, want %q", name, tt.line, output, tt.want)
		}
	}
}

// Tenants see display units, though they may not read registrations.
func TestJournalUnitsOfTenants(t *testing.T) {
	t.Parallel()
	w := newProjectWorld(t, 2)
	w.mustCreate(w.configMap("a"))
	binary, err := process.Build()
	must(t, err)
	tenant := &person{T: t, binary: binary, kubeconfig: started.Kubeconfig}
	for _, command := range []string{"usage", "history"} {
		eventually(t, func() error { return wantPrinted(tenant, "2 maps", command, "-n", w.name, "--as", w.viewer) })
	}
	eventually(t, func() error { return wantPrinted(tenant, "+1 map ", "top", "-n", w.name, "--as", w.viewer) })
}

// wantPrinted returns an error unless a command line succeeds and prints a text.
func wantPrinted(p *person, text string, arguments ...string) error {
	output, hasSucceeded := p.run("", arguments...)
	if !hasSucceeded || !strings.Contains(output, text) {
		return fmt.Errorf("bursar %v prints %s, want %q", arguments, output, text)
	}
	return nil
}
