package main

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// plugin is the binary that Krew installs.
	plugin = "kubectl-bursar"
	// operator is the binary in the image.
	operator = "bursar-operator"
)

// platform is a system we build binaries for.
type platform struct{ OS, Arch string }

func (p platform) String() string { return p.OS + "-" + p.Arch }

func (p platform) isWindows() bool { return p.OS == "windows" }

// platforms are all of them. Only the plugin has a binary for Windows.
var platforms = []platform{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

// binaries are the names of the binaries, each with a folder in cmd.
var binaries = []string{"bursar", operator, plugin}

// target is a binary for a platform.
type target struct {
	binary string
	platform
}

// targets are all binaries for all platforms.
func targets() []target {
	var all []target
	for _, binary := range binaries {
		for _, p := range platforms {
			if !p.isWindows() || binary == plugin {
				all = append(all, target{binary, p})
			}
		}
	}
	return all
}

// targetsOf selects targets by names of binaries and platforms, each a list or "all".
func targetsOf(binaryNames, platformNames string) ([]target, error) {
	all := targets()
	isSelected := func(names, name string) bool {
		return names == "all" || slices.Contains(strings.Split(names, ","), name)
	}
	for _, list := range []struct {
		names string
		known func(target) string
	}{
		{binaryNames, func(t target) string { return t.binary }},
		{platformNames, func(t target) string { return t.platform.String() }},
	} {
		for name := range strings.SplitSeq(list.names, ",") {
			if name != "all" && !slices.ContainsFunc(all, func(t target) bool { return list.known(t) == name }) {
				return nil, fmt.Errorf("nothing is released as %q: give all, or some of %s", name, known(all, list.known))
			}
		}
	}
	selected := slices.DeleteFunc(all, func(t target) bool {
		return !isSelected(binaryNames, t.binary) || !isSelected(platformNames, t.platform.String())
	})
	if len(selected) == 0 {
		return nil, fmt.Errorf("%s is not released for %s", binaryNames, platformNames)
	}
	return selected, nil
}

func known(all []target, name func(target) string) string {
	var names []string
	for _, t := range all {
		if !slices.Contains(names, name(t)) {
			names = append(names, name(t))
		}
	}
	return strings.Join(names, ", ")
}

func (t target) String() string { return t.binary + "-" + t.platform.String() }

// file is the name of the binary.
func (t target) file() string {
	if t.isWindows() {
		return t.binary + ".exe"
	}
	return t.binary
}

// archive is the name of the archive.
func (t target) archive() string {
	if t.isWindows() {
		return t.String() + ".zip"
	}
	return t.String() + ".tar.gz"
}

// sbom is the name of the bill of materials.
func (t target) sbom() string { return t.String() + ".spdx.json" }

// source is the package of the binary.
func (t target) source() string { return "./cmd/" + t.binary }

// environment selects the platform for the go command.
func (t target) environment() []string {
	return []string{"GOOS=" + t.OS, "GOARCH=" + t.Arch, "CGO_ENABLED=0"}
}
