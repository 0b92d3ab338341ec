package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/standalone/datadir"
)

const (
	// settingsFile is the file with the settings of a server, in its data directory.
	settingsFile = "config.yaml"
	// settingsHead is the beginning of settingsFile.
	settingsHead = "# The settings of this server, by the names of the flags of bursar standalone. A flag overrides one for a single start;\n" +
		"# with --save for good. Changes here count from the next start.\n"
	// systemNamespaceFlag is the one setting that cannot change once there are ledgers.
	systemNamespaceFlag = "system-namespace"
)

// notSettings are the flags for one start only.
var notSettings = []string{"data-dir", "save", "verbosity", "help"}

// settings are those of a server, as YAML holds them: strings, or lists of them, by the names of flags.
type settings map[string]any

// loadSettings sets flags that are not on the command line to their values in the data directory. It returns the
// settings to write once the server has started, or nil if the directory has them already.
func loadSettings(dir string, flags *pflag.FlagSet, save bool, out io.Writer) (settings, error) {
	path := filepath.Join(dir, settingsFile)
	stored, err := readSettings(dir, path)
	if err != nil {
		return nil, err
	}
	isNew := stored == nil
	if isNew {
		stored = settings{}
	}
	if err := checkNames(path, stored, flags); err != nil {
		return nil, err
	}
	given := givenSettings(flags)
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		flag := flags.Lookup(name)
		if !flag.Changed {
			if err := setValue(flags, flag, stored[name]); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", path, name, err)
			}
		} else if now, was := fmt.Sprint(given[name]), fmt.Sprint(stored[name]); now != was && !save && name != "listen" {
			fmt.Fprintf(out, "bursar: --%s is %s for this start, and %s in %s; --save keeps the new value\n", name, now, was, path) //nolint:errcheck // as below
		}
	}
	if !isNew && !save {
		return nil, nil
	}
	if isNew {
		for _, name := range []string{"listen", systemNamespaceFlag} {
			stored[name] = flags.Lookup(name).Value.String()
		}
	}
	maps.Copy(stored, given)
	return stored, nil
}

// checkNames returns an error for a stored setting without a flag.
func checkNames(path string, stored settings, flags *pflag.FlagSet) error {
	for name := range stored {
		if flags.Lookup(name) == nil || slices.Contains(notSettings, name) {
			return fmt.Errorf("%s: there is no setting %q; %s", path, name, cmp.Or(cli.DidYouMean("", name, settingNames(flags)), "see bursar standalone --help"))
		}
	}
	return nil
}

// givenSettings returns the settings on the command line.
func givenSettings(flags *pflag.FlagSet) settings {
	given := settings{}
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed && !slices.Contains(notSettings, flag.Name) {
			given[flag.Name] = valueOf(flag)
		}
	})
	return given
}

// readSettings returns the settings of a data directory, or nil if there are none yet.
func readSettings(dir, path string) (settings, error) {
	if !datadir.Is(dir) {
		return nil, nil
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the settings: %w", err)
	}
	stored := settings{}
	if err := yaml.Unmarshal(content, &stored); err != nil {
		return nil, fmt.Errorf("%s is not YAML: %w", path, err)
	}
	return stored, nil
}

func settingNames(flags *pflag.FlagSet) []string {
	var names []string
	flags.VisitAll(func(flag *pflag.Flag) {
		if !slices.Contains(notSettings, flag.Name) {
			names = append(names, flag.Name)
		}
	})
	return names
}

// valueOf returns the value of a flag in the form of the file.
func valueOf(flag *pflag.Flag) any {
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		values := []any{}
		for _, value := range list.GetSlice() {
			values = append(values, value)
		}
		return values
	}
	return flag.Value.String()
}

// setValue sets a flag from the file, as the command line would.
func setValue(flags *pflag.FlagSet, flag *pflag.Flag, value any) error {
	values, isList := value.([]any)
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		if !isList {
			return errors.New("it must be a list")
		}
		var texts []string
		for _, value := range values {
			texts = append(texts, fmt.Sprint(value))
		}
		if err := list.Replace(texts); err != nil {
			return err
		}
		flag.Changed = true
		return nil
	}
	if isList || value == nil {
		return errors.New("it must be a single value")
	}
	return cli.InvalidValue(flags.Set(flag.Name, fmt.Sprint(value)))
}

// write writes the settings to a data directory.
func (s settings) write(dir string) error {
	if s == nil {
		return nil
	}
	content, err := yaml.Marshal(s)
	if err == nil {
		err = datadir.WriteFile(filepath.Join(dir, settingsFile), []byte(settingsHead+strings.TrimSpace(string(content))+"\n"))
	}
	if err != nil {
		return fmt.Errorf("write the settings: %w", err)
	}
	return nil
}
