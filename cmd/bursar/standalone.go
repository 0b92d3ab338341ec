package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/operate"
	"github.com/bursar/bursar/internal/cli/servers"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/internal/standalone/apiserver"
	"github.com/bursar/bursar/internal/standalone/datadir"
	"github.com/bursar/bursar/internal/standalone/flags"
)

// stopTimeout is how long a server may take to stop. It takes some seconds; systemd kills after 90.
const stopTimeout = 75 * time.Second

// startStandalone runs the command with its flags: those of the command line, before those of the data directory.
func startStandalone(command *cobra.Command, f *flags.Standalone) error {
	if f.DataDir == "" {
		var err error
		if f.DataDir, err = datadir.Default(); err != nil {
			return err
		}
	}
	toWrite, err := loadSettings(f.DataDir, command.Flags(), f.Save, command.OutOrStdout())
	if err != nil {
		return err
	}
	if err := f.Complete(command.Flags()); err != nil {
		return err
	}
	return runStandalone(command, standalone.Options{
		Quota: f.Quota, DataDir: f.DataDir, Listen: f.Listen, Etcd: apiserver.ExternalEtcd(f.Etcd),
		Authentication: apiserver.Authentication{ConfigFile: f.AuthenticationConfig, OIDC: apiserver.OIDC(f.OIDC)},
	}, toWrite, f.Verbosity)
}

// runStandalone runs a server until a signal. Once it is ready, it writes the settings, if any, to its data
// directory: a setting with which it cannot start is not kept.
func runStandalone(command *cobra.Command, o standalone.Options, toWrite settings, verbosity int) error {
	o.Out = command.OutOrStdout()
	logs := &logFile{dir: filepath.Join(o.DataDir, "logs")}
	o.Log = logs.redirect(verbosity)
	// Warnings of the API server to clients inside this process have no reader.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})

	forget := func() {}
	defer func() { forget() }()
	defer cli.EndAfterTimeout(command.Context(), stopTimeout, filepath.Join(logs.dir, "stuck.txt"), func(sentence string) {
		forget()
		fmt.Fprintln(command.ErrOrStderr(), "bursar:", sentence)
		os.Exit(1)
	})()
	o.OnServing = func(kubeconfig string) { forget = servers.Remember(kubeconfig) }
	o.Metrics = legacyregistry.Registerer()
	server, err := standalone.Start(command.Context(), o)
	if err == nil {
		if err := toWrite.write(o.DataDir); err != nil {
			fmt.Fprintln(command.ErrOrStderr(), "bursar:", err)
		}
		err = server.Wait()
	}
	if command.Context().Err() != nil {
		fmt.Fprintln(o.Out, "bursar: stopped")
		return nil
	}
	return err
}

// logFile receives the logs of libraries. The file is created with the first line, because the data directory may not
// exist yet, or may turn out to belong to another program.
type logFile struct {
	dir  string
	file io.Writer
}

// redirect makes klog and controller-runtime log to the file, and returns a logger for Bursar itself. Each line names
// its logger. By default libraries log only errors, because their many notices are not for operators.
func (l *logFile) redirect(verbosity int) logr.Logger {
	handler := slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.Level(-verbosity)})
	of := func(component string) slog.Handler {
		return handler.WithAttrs([]slog.Attr{slog.String("component", component)})
	}
	libraries := of("kubernetes")
	if verbosity == 0 {
		libraries = atLeast{libraries, slog.LevelWarn}
	}
	operate.SetLogger(libraries)
	return logr.FromSlogHandler(of("bursar"))
}

// atLeast is a handler that drops records below a level.
type atLeast struct {
	slog.Handler
	level slog.Level
}

// Enabled implements [slog.Handler].
func (h atLeast) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= h.level && h.Handler.Enabled(ctx, level)
}

// WithAttrs implements [slog.Handler].
func (h atLeast) WithAttrs(attrs []slog.Attr) slog.Handler {
	return atLeast{h.Handler.WithAttrs(attrs), h.level}
}

// WithGroup implements [slog.Handler].
func (h atLeast) WithGroup(name string) slog.Handler {
	return atLeast{h.Handler.WithGroup(name), h.level}
}

// Write implements [io.Writer]. It drops lines before the directory exists.
func (l *logFile) Write(line []byte) (int, error) {
	if l.file == nil {
		if _, err := os.Stat(l.dir); err != nil {
			return len(line), nil
		}
		l.file = apiserver.NewLogFile(filepath.Join(l.dir, "bursar.log"))
	}
	return l.file.Write(line)
}
