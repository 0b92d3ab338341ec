package commands

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/history"
	"github.com/bursar/bursar/internal/cli/request"
	"github.com/bursar/bursar/internal/journal"
)

// newShowbackCommand returns the command that writes amount-hours.
func newShowbackCommand(p cli.Program) *cobra.Command {
	var consumer, step string
	command := &cobra.Command{
		Use:   "showback",
		Short: "Write the use of consumers over time, in amount-hours, as CSV",
		Long: `Write the use and the limits of consumers over time, from the journal: as CSV with a line for each consumer and resource type or, with
--step, for each day or month of UTC. 2 GiB for 3 hours are 6 GiB-hours. Amounts are in base units, with their names if an API server
knows them. The use includes reservations for objects under creation. Use from before the window counts from its start. An account without
an entry before the window counts from its first Opened entry. Amount-hours are exact up to a millionth.`,
		Example: `  # Last month
  bursar showback --since 2026-10-01 --until 2026-11-01 > october.csv
  # A line for each day
  bursar showback --consumer project/web --since 7d --step day`,
		Args: cli.NoArguments("for one consumer, bursar showback --consumer %[1]s"),
	}
	j := addJournalFlags(command, p, "")
	j.addResourceType(command)
	j.addConsumer(command, &consumer)
	command.Flags().StringVar(&step, "step", "", "a line for each day or month (default: one for the whole window)")
	completeValues(command, "step", string(history.PeriodDay), string(history.PeriodMonth))
	command.RunE = func(command *cobra.Command, _ []string) error {
		selection, err := j.selection(consumer, time.Now())
		if err != nil {
			return err
		}
		period := history.Period(step)
		if err := period.Check(); err != nil {
			return err
		}
		_, err = printFromJournal(command, j, "use and no limits", func(ctx context.Context, source journal.Source, units history.Units) (*history.Showback, error) {
			return history.ReadShowback(ctx, source, selection, period, units)
		})
		return err
	}
	return command
}

// newBacktestCommand returns the command to test limits.
func newBacktestCommand(p cli.Program) *cobra.Command {
	var consumer string
	var limits []string
	command := &cobra.Command{
		Use:   "backtest --limit TYPE=N...",
		Short: "Show the denials under other limits",
		Long: `Decide the creates in the journal again, under other limits, and show the denials: for each consumer and resource type their number, the
first one, the peak use, and the smallest limit that denies none. A denied object uses nothing from then on; an existing object keeps its
amount. Use at the start of the window counts.

A limit covers the whole resource type, with the sum of all dimensions. Limits are in base units. Charges beyond the limit count like all
others. To test a policy instead of a limit: bursar policy backtest.`,
		Example: `  # Would 8 projects have been enough for everyone?
  bursar backtest --limit projects=8
  # And for one of them, over a longer time?
  bursar backtest --limit vcpus=64 --limit memory=256Gi --consumer project/web --since 90d`,
		Args: cli.NoArguments("to test limits, bursar backtest --limit TYPE=N; to test a policy, bursar policy backtest %[1]s"),
	}
	cli.AnswersByExitCode(command, "nothing would have been denied", "something would")
	j := addJournalFlags(command, p, "30d")
	j.addConsumer(command, &consumer)
	j.addOutput(command)
	command.Flags().StringArrayVar(&limits, "limit", nil, "a limit to test, as TYPE=N; the part after the last slash of a type is enough")
	command.RunE = func(command *cobra.Command, _ []string) error {
		var o history.ReplayOptions
		var err error
		if o.Limits, err = request.ParseAmounts(limits, 0); err != nil {
			return fmt.Errorf("--limit: %w", err)
		}
		if o.Selection, err = j.selection(consumer, time.Now()); err != nil {
			return err
		}
		if err := o.Check(); err != nil {
			return err
		}
		result, err := printFromJournal(command, j, "creates", func(ctx context.Context, source journal.Source, units history.Units) (*history.Replayed, error) {
			o.Units = units
			return history.Replay(ctx, source, o)
		})
		if err == nil && result.Denied() > 0 {
			return errWouldDenyCreates
		}
		return err
	}
	return command
}

// errWouldDenyCreates ends the command after it has printed the result.
var errWouldDenyCreates = cli.No("some creates would have been denied")
