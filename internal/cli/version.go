package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// versions are the version and the origin of a binary.
type versions struct {
	// Version is Bursar's.
	Version string `json:"version"`
	// Kubernetes is the version of the Kubernetes libraries, and of a standalone server's API server.
	Kubernetes string `json:"kubernetes,omitempty"`
	// Commit and CommitTime are those of the source, for a build from a repository.
	Commit     string `json:"commit,omitempty"`
	CommitTime string `json:"commitTime,omitempty"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
}

func versionsOf(version string) versions {
	v := versions{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			v.Commit = setting.Value
		case "vcs.time":
			v.CommitTime = setting.Value
		}
	}
	for _, module := range info.Deps {
		if module.Path == "k8s.io/kubernetes" {
			v.Kubernetes = module.Version
		}
	}
	return v
}

// newVersionCommand prints the version, or with a flag all versions of the binary.
func newVersionCommand(version string) *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Example: `  bursar version
  # With those of Kubernetes and Go
  bursar version -o json`,
		Args: NoArguments(""),
		RunE: func(command *cobra.Command, _ []string) error {
			var content []byte
			var err error
			switch output {
			case "":
				content = []byte(version + "\n")
			case "json":
				content, err = json.MarshalIndent(versionsOf(version), "", "  ")
				content = append(content, '\n')
			case "yaml":
				content, err = yaml.Marshal(versionsOf(version))
			default:
				return fmt.Errorf("--output: there is no format %q; choose json or yaml", output)
			}
			if err != nil {
				return fmt.Errorf("encode the version: %w", err)
			}
			_, err = command.OutOrStdout().Write(content)
			return err
		},
	}
	command.Flags().StringVarP(&output, "output", "o", "", "json or yaml: also the versions of Kubernetes and Go, and the commit")
	return command
}
