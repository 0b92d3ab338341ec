package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/history"
	"github.com/bursar/bursar/internal/cli/terminal"
	"github.com/bursar/bursar/internal/journal"
)

const (
	// changesDefault is the number of changes of use to print.
	changesDefault = 20
	// widthDefault is the width of charts where there is no terminal, and widthMax bounds it on a terminal.
	widthDefault = 80
	widthMax     = 160
)

// newHistoryCommand returns the command that prints limits and use over time.
func newHistoryCommand(p cli.Program) *cobra.Command {
	var o history.Options
	var consumer string
	var isASCII bool
	command := &cobra.Command{
		Use:   "history [KIND/NAME]",
		Short: "Show the limits and the use of a consumer over time, and who changed them",
		Long: `Show the limits and the use of a consumer over time, from the journal: for each resource type a chart, the changes of its limit, and
the latest changes of use, newest last. The use includes reservations for objects under creation. Without a name, the journal must have a
single consumer. With --limits, list the changes of limits with their actors, for all consumers unless you name one.

Amounts are in base units if --journal names the journal, because only an API server knows display units. Times are UTC.`,
		Example: `  # What became of a project's quota?
  bursar history project/web --since 30d
  # Who changed which limit?
  bursar history --limits --since 2026-11-01
  # From an archive, for a script
  bursar history project/web --journal s3://audit/bursar -o json`,
		Args: func(command *cobra.Command, arguments []string) error {
			if len(arguments) > 1 {
				return errors.New("name one consumer, as KIND/NAME, such as project/web")
			}
			return nil
		},
	}
	j := addJournalFlags(command, p, "")
	j.addResourceType(command)
	j.addConsumer(command, &consumer)
	j.addOutput(command)
	f := command.Flags()
	f.BoolVar(&o.OnlyLimits, "limits", false, "list the changes of limits only")
	f.IntVar(&o.ChangesMax, "changes", changesDefault, "at most this many changes of use of each resource type, or 0 for all")
	f.BoolVar(&isASCII, "ascii", false, "draw charts with ASCII characters (default: if the locale is not UTF-8)")
	completeArgument(command, grantsSeen(j.server, fullConsumerOf))
	command.RunE = func(command *cobra.Command, arguments []string) error {
		consumer, err := oneConsumer(arguments, consumer)
		if err != nil {
			return err
		}
		if o.Selection, err = j.selection(consumer, time.Now()); err != nil {
			return err
		}
		if err := o.Check(); err != nil {
			return err
		}
		style := terminal.Of(command.OutOrStdout())
		o.Style = history.Style{Width: min(cmp.Or(style.Width, widthDefault), widthMax), IsASCII: isASCII || style.IsASCII}
		_, err = printFromJournal(command, j, listedBy(&o), func(ctx context.Context, source journal.Source, units history.Units) (*history.Report, error) {
			o.Units = units
			return history.Read(ctx, source, o)
		})
		return err
	}
	return command
}

// listedBy names the changes in a history.
func listedBy(o *history.Options) string {
	if o.OnlyLimits {
		return "changes of limits"
	}
	return "changes"
}

// oneConsumer returns the consumer in an argument or in the flag --consumer, or "" for all.
func oneConsumer(arguments []string, flag string) (string, error) {
	switch {
	case len(arguments) == 0:
		return flag, nil
	case flag != "":
		return "", fmt.Errorf("name one consumer: %s or --consumer %s", arguments[0], flag)
	default:
		return arguments[0], nil
	}
}

// newTopCommand returns the command that lists movers.
func newTopCommand(p cli.Program) *cobra.Command {
	var o history.TopOptions
	var consumer, by string
	command := &cobra.Command{
		Use:   "top",
		Short: "Show the largest changes of use or limits",
		Long: `Show the largest changes of use, or of limits, between the start and the end of a window, from the journal. The largest change
comes first, as a share: of the limit for use, and of the limit before for limits. Amounts are in base units if --journal names the journal.`,
		Example: `  # Who grew since yesterday?
  bursar top
  # Whose limits changed most this month?
  bursar top --by limit --since 30d
  # Which resource types of a project grew?
  bursar top --consumer project/web`,
		Args: cli.NoArguments("for one consumer, bursar top --consumer %[1]s; for its history, bursar history %[1]s"),
	}
	j := addJournalFlags(command, p, "24h")
	j.addResourceType(command)
	j.addConsumer(command, &consumer)
	j.addOutput(command)
	command.Flags().StringVar(&by, "by", string(history.ByUse), "the changes to show: use or limit")
	completeValues(command, "by", string(history.ByUse), string(history.ByLimit))
	command.Flags().IntVar(&o.Max, "number", 10, "at most this many rows")
	command.RunE = func(command *cobra.Command, _ []string) error {
		var err error
		if o.Selection, err = j.selection(consumer, time.Now()); err != nil {
			return err
		}
		o.By = history.Measure(by)
		if err := o.Check(); err != nil {
			return err
		}
		_, err = printFromJournal(command, j, "change of "+by, func(ctx context.Context, source journal.Source, units history.Units) (*history.Top, error) {
			o.Units = units
			return history.ReadTop(ctx, source, o)
		})
		return err
	}
	return command
}
