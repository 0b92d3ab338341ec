package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/history"
	"github.com/bursar/bursar/internal/cli/request"
	"github.com/bursar/bursar/internal/cli/servers"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/journal/journalconfig"
	"github.com/bursar/bursar/internal/journal/overapi"
	"github.com/bursar/bursar/internal/usage"
)

// journalFlags are the flags of all commands that read the journal.
type journalFlags struct {
	server       *server
	location     string
	resourceType string
	since, until string
	output       *output
	// damage has the damaged lines of the journal at the location.
	damage journal.Damage
}

// addJournalFlags adds the flags of a command that reads the journal. since is the default of --since; if it is empty,
// the command reads everything.
func addJournalFlags(command *cobra.Command, p cli.Program, since string) *journalFlags {
	j := &journalFlags{server: addServer(command, p)}
	f := command.Flags()
	j.server.addNamespace(command, "a namespace where you may create QuotaHistories (tenants: your own; default: the kubeconfig's)")
	f.StringVar(&j.location, "journal", "",
		"the journal to read: a folder, a file, - for the standard input, or s3://BUCKET/PREFIX (default: the journal of the API server)")
	f.StringVar(&j.since, "since", since, "start of the window: a duration ago such as 30d, a date, or a time such as 2026-11-01T18:00:00Z")
	f.StringVar(&j.until, "until", "", "end of the window, exclusive, in the same forms (default: now)")
	completeJournal(command, j.server)
	return j
}

// addResourceType adds the flag for one resource type.
func (j *journalFlags) addResourceType(command *cobra.Command) {
	command.Flags().StringVar(&j.resourceType, "resource-type", "", "only this resource type; the part after its last slash is enough")
	complete(command, "resource-type", grantsSeen(j.server, typeOf))
}

// addConsumer adds the flag for one consumer.
func (j *journalFlags) addConsumer(command *cobra.Command, consumer *string) {
	command.Flags().StringVar(consumer, "consumer", "", "only this consumer: KIND/NAME, KIND.GROUP/NAME or KIND.GROUP/NAMESPACE/NAME")
	complete(command, "consumer", grantsSeen(j.server, fullConsumerOf))
}

// addOutput adds the flag for the format.
func (j *journalFlags) addOutput(command *cobra.Command) {
	j.output = addOutput(command, "tables")
}

// selection returns the selection of the flags, at a time.
func (j *journalFlags) selection(consumer string, now time.Time) (history.Selection, error) {
	s := history.Selection{Consumer: consumer, ResourceType: j.resourceType, Now: now}
	var errSince, errUntil error
	s.Since, errSince = parseMoment("since", j.since, now)
	s.Until, errUntil = parseMoment("until", j.until, now)
	if err := errors.Join(errSince, errUntil); err != nil {
		return s, err
	}
	if j.output != nil { // showback prints CSV only
		if err := j.output.check(); err != nil {
			return s, err
		}
	}
	return s, s.Check()
}

// open returns the journal of the flags, and the display units of resource types. Without an API server, amounts are in
// base units.
func (j *journalFlags) open(command *cobra.Command) (journal.Source, history.Units, error) {
	if j.location != "" {
		source, err := journalconfig.Open(j.location)
		return journal.Tolerant{Source: source, Damage: &j.damage}, nil, err
	}
	config, err := j.server.config(servers.Reads)
	if err != nil {
		return nil, nil, err
	}
	config.WarningHandler = &warningsOnce{out: command.ErrOrStderr()}
	api, err := clientOf(config)
	if err != nil {
		return nil, nil, err
	}
	namespace, err := j.server.namespace()
	if err != nil {
		return nil, nil, err
	}
	return &overapi.Source{API: api, Namespace: namespace}, unitsOf(command.Context(), api, namespace), nil
}

// journalAnswer is the answer of a command from the journal.
type journalAnswer interface {
	IsEmpty() bool
	Print(w io.Writer, format usage.Format) error
}

// printFromJournal calls read on the journal of the flags, prints the answer and returns it. For an empty answer, a
// sentence on the error output names the missing content.
func printFromJournal[A journalAnswer](
	command *cobra.Command, j *journalFlags, lacks string, read func(context.Context, journal.Source, history.Units) (A, error),
) (answer A, err error) {
	source, units, err := j.open(command)
	if err != nil {
		return answer, err
	}
	answer, err = during(command, "reading the journal", func(ctx context.Context) (A, error) { return read(ctx, source, units) })
	if err != nil {
		return answer, err
	}
	if count := j.damage.Count(); count > 0 {
		if _, err := fmt.Fprintf(command.ErrOrStderr(), "Warning: skipped %s of the journal, so entries may be missing: %s\n",
			message.Count(count, "damaged line", "damaged lines"), j.damage.Example()); err != nil {
			return answer, err
		}
	}
	if answer.IsEmpty() && (j.output == nil || j.output.isForPeople()) {
		if _, err := fmt.Fprintln(command.ErrOrStderr(), j.emptyText(lacks)); err != nil {
			return answer, err
		}
	}
	if j.output == nil {
		return answer, answer.Print(command.OutOrStdout(), "")
	}
	return answer, j.output.write(answer.Print)
}

// warningsOnce prints each warning of the API server once. The warnings report a journal that is behind or damaged, and
// come with the pages of each consumer.
type warningsOnce struct {
	out     io.Writer
	mu      sync.Mutex
	printed map[string]bool
}

// HandleWarningHeader implements [rest.WarningHandler].
func (w *warningsOnce) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	kind, _, _ := strings.Cut(text, ":") // the delay and the number of entries that wait change from page to page
	if isBehind := strings.Contains(kind, " behind"); isBehind {
		kind = "behind"
	}
	if w.printed[kind] {
		return
	}
	if w.printed == nil {
		w.printed = map[string]bool{}
	}
	w.printed[kind] = true
	_, _ = fmt.Fprintln(w.out, "Warning:", text) // the answer matters more
}

// unitsOf returns the display units of all resource types. A user without the right to read registrations gets those of
// the quota in a namespace.
func unitsOf(ctx context.Context, api client.Client, namespace string) history.Units {
	units := history.Units{}
	var list quotav1alpha1.ResourceRegistrationList
	if err := api.List(ctx, &list); err != nil {
		shown, err := request.Units(ctx, api, namespace)
		if err != nil {
			return units // amounts in base units are right, too
		}
		return shown
	}
	for i := range list.Items {
		spec := &list.Items[i].Spec
		units[spec.ResourceType] = usage.Unit{Name: spec.DisplayUnit, Factor: int64(spec.UnitConversionFactor), Base: spec.BaseUnit}
	}
	return units
}

// emptyText explains an empty answer of the journal.
func (j *journalFlags) emptyText(what string) string {
	text := "The journal has no " + what
	switch {
	case j.since != "" && j.until != "":
		text += fmt.Sprintf(" since %s and before %s", j.since, j.until)
	case j.since != "":
		text += " since " + j.since
	case j.until != "":
		text += " before " + j.until
	}
	return text + "."
}
