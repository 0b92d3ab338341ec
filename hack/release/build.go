package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	project = "https://github.com/bursar/bursar"
	// checksums is the file with the checksums of all published files, as sha256sum writes it.
	checksums = "checksums.txt"
)

// release is a version in the making.
type release struct {
	version, dist, ldflags string
	// registry is the repository of the image, without a tag.
	registry string
	// url is where the archives of all versions are, or empty.
	url                    string
	targets                []target
	archives, chart, image bool
	progress               io.Writer
	// time is the time of the commit, or SOURCE_DATE_EPOCH. All files have it.
	time time.Time
}

// build makes all parts, and then the checksums of all files.
func (r *release) build(ctx context.Context) error {
	var err error
	if r.time, err = commitTime(ctx); err != nil {
		return err
	}
	entries, err := os.ReadDir(r.dist)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty: remove it, so that a release holds nothing of an earlier one", r.dist)
	}
	if err := os.MkdirAll(r.dist, 0o755); err != nil {
		return err
	}
	for _, part := range []struct {
		make   func(context.Context) error
		wanted bool
	}{{r.makeArchives, r.archives}, {r.makeManifest, r.archives}, {r.makeChart, r.chart}, {r.makeImage, r.image}} {
		if !part.wanted {
			continue
		}
		if err := part.make(ctx); err != nil {
			return err
		}
	}
	return writeChecksums(r.dist)
}

// makeArchives builds each target, and packs it with its notices and beside its bill of materials.
func (r *release) makeArchives(ctx context.Context) error {
	classify, err := newClassifier()
	if err != nil {
		return err
	}
	for _, t := range r.targets {
		started := time.Now()
		if err := r.makeArchive(ctx, t, classify); err != nil {
			return fmt.Errorf("release %s: %w", t, err)
		}
		fmt.Fprintf(r.progress, "%s (%.0f s)\n", t.archive(), time.Since(started).Seconds())
	}
	return nil
}

func (r *release) makeArchive(ctx context.Context, t target, classify *classifier) error {
	scratch, err := os.MkdirTemp("", "bursar-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch) //nolint:errcheck // it is a temporary folder
	binary := filepath.Join(scratch, t.file())
	if _, err := output(ctx, t.environment(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w "+r.ldflags, "-o", binary, t.source()); err != nil {
		return err
	}
	linked, err := componentsOf(ctx, t.environment(), t.source())
	if err != nil {
		return err
	}
	if err := classify.all(linked); err != nil {
		return err
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	files, err := legalFiles(linked)
	if err != nil {
		return err
	}
	files = append([]file{{t.file(), executable, content}}, files...)
	if err := pack(filepath.Join(r.dist, t.archive()), files, r.time); err != nil {
		return err
	}
	return r.writeSBOM(t, content, linked)
}

// makeManifest writes the manifest for Krew, if the build has the plugin for all platforms in the manifest.
func (r *release) makeManifest(context.Context) error {
	built := 0
	for _, t := range r.targets {
		if t.binary == plugin {
			built++
		}
	}
	if built < len(platforms) {
		fmt.Fprintf(r.progress, "no manifest for Krew, because %s was not built for all platforms\n", plugin)
		return nil
	}
	url := r.url
	if url == "" {
		url = project + "/releases/download"
	}
	content, err := render(r.dist, "deploy/krew/bursar.yaml.tmpl", r.version, url+"/"+r.version)
	if err != nil {
		return err
	}
	if err := check(pluginName, content); err != nil {
		return fmt.Errorf("the manifest breaks a rule of Krew: %w", err)
	}
	return publish(filepath.Join(r.dist, pluginName+".yaml"), content)
}

// publish writes a file readable by everybody.
func publish(path string, content []byte) error {
	return os.WriteFile(path, content, 0o644) //nolint:gosec // it is published
}

// commitTime returns SOURCE_DATE_EPOCH, or the time of the commit.
func commitTime(ctx context.Context) (time.Time, error) {
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		out, err := output(ctx, nil, "git", "log", "-1", "--format=%ct")
		if err != nil {
			return time.Time{}, fmt.Errorf("read the time of the commit (or set SOURCE_DATE_EPOCH): %w", err)
		}
		epoch = strings.TrimSpace(string(out))
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH is %q, want seconds since 1970", epoch)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// output runs a command with variables beside those of the environment, and returns its standard output.
func output(ctx context.Context, environment []string, name string, arguments ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, name, arguments...)
	command.Env = append(os.Environ(), environment...)
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(arguments, " "), err, out, stderr.String())
	}
	return out, nil
}
