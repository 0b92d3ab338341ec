// Krew packs the plugin of kubectl: it makes an archive of the binary of each platform, a file with their checksums, and
// the manifest by which Krew installs them.
//
//	krew archive DIST
//	krew manifest DIST TEMPLATE VERSION URL
//
// DIST has a folder OS-ARCH for each platform, with its binary. The manifest is written to DIST, too; URL is where the
// archives will be.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "krew:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	switch {
	case len(arguments) == 2 && arguments[0] == "archive":
		return archiveAll(arguments[1])
	case len(arguments) == 5 && arguments[0] == "manifest":
		content, err := render(arguments[1], arguments[2], arguments[3], arguments[4])
		if err != nil {
			return err
		}
		if err := check(pluginName, content); err != nil {
			return fmt.Errorf("the manifest breaks a rule of Krew: %w", err)
		}
		return os.WriteFile(filepath.Join(arguments[1], pluginName+".yaml"), content, 0o644) //nolint:gosec // it is published
	default:
		return errors.New("usage: krew archive DIST, or krew manifest DIST TEMPLATE VERSION URL")
	}
}
