// Release builds all published files of a version of Bursar, and checks the licences of the linked code.
//
//	release licenses
//	release build [FLAGS] VERSION
//
// Run it in the root of the repository. Its files depend on the commit, the version and the Go toolchain, and on
// nothing else: not on the folder, the time or the machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string, progress io.Writer) error {
	switch {
	case len(arguments) == 1 && arguments[0] == "licenses":
		return checkLicenses(ctx, progress)
	case len(arguments) > 1 && arguments[0] == "build":
		return buildCommand(ctx, arguments[1:], progress)
	default:
		return errors.New("usage: release licenses, or release build [FLAGS] VERSION")
	}
}

func buildCommand(ctx context.Context, arguments []string, progress io.Writer) error {
	r := release{progress: progress}
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	flags.StringVar(&r.dist, "dist", "dist", "the `folder` for what is published")
	flags.StringVar(&r.ldflags, "ldflags", "", "`flags` of the linker, beside those that strip symbols")
	flags.StringVar(&r.registry, "registry", "ghcr.io/bursar/bursar", "the `repository` of the published image, as the chart names it")
	flags.StringVar(&r.url, "url", "", "`URL` of the archives, without the version (default: the releases of the project)")
	of := flags.String("platforms", "all", "`OS-ARCH,...` to build for")
	binaryNames := flags.String("binaries", "all", "`names` of the binaries to build")
	parts := flags.String("parts", "archives,chart,image", "what to make")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("usage: release build [FLAGS] VERSION")
	}
	r.version = flags.Arg(0)
	if err := checkVersion(r.version); err != nil {
		return err
	}
	var err error
	if r.targets, err = targetsOf(*binaryNames, *of); err != nil {
		return err
	}
	for part := range strings.SplitSeq(*parts, ",") {
		switch part {
		case "archives":
			r.archives = true
		case "chart":
			r.chart = true
		case "image":
			r.image = true
		default:
			return fmt.Errorf("there is no part %q of a release: give archives, chart or image", part)
		}
	}
	return r.build(ctx)
}
