package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	ko = "github.com/google/ko@v0.19.1"
	// kodata is the folder that ko puts into the image, as /var/run/ko.
	kodata = "cmd/" + operator + "/kodata"
	// nobody is the user of the image, by its number. The number lets Kubernetes tell that it is not root.
	nobody = "65532:65532"
)

// makeImage builds the image of the operator with ko, for all released platforms of Linux. It pushes the image to
// KO_DOCKER_REPO, and without this variable it writes an archive in the OCI layout. It publishes the base in
// KO_DEFAULTBASEIMAGE: with it, everybody can build the same image.
func (r *release) makeImage(ctx context.Context) error {
	var systems []string
	for _, t := range r.targets {
		if t.binary == operator && t.OS == "linux" {
			systems = append(systems, t.OS+"/"+t.Arch)
		}
	}
	if len(systems) == 0 {
		fmt.Fprintf(r.progress, "no image, because %s was not built for Linux\n", operator)
		return nil
	}
	if err := r.writeKodata(ctx); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "bursar-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch) //nolint:errcheck // it is a temporary folder
	layout := filepath.Join(scratch, "layout")
	arguments := []string{
		"run", ko, "build", "--bare", "--platform", strings.Join(systems, ","), "--image-user", nobody, "--tags", r.version,
		"--image-label", "org.opencontainers.image.source=" + project + ",org.opencontainers.image.version=" + r.version + ",org.opencontainers.image.licenses=Apache-2.0",
		"--sbom", "spdx", "--sbom-dir", scratch,
	}
	repository := os.Getenv("KO_DOCKER_REPO")
	if repository == "" {
		repository = r.registry
		arguments = append(arguments, "--push=false", "--oci-layout-path", layout)
	}
	epoch := fmt.Sprint(r.time.Unix())
	environment := []string{"KO_DOCKER_REPO=" + repository, "LDFLAGS=-s -w " + r.ldflags, "SOURCE_DATE_EPOCH=" + epoch, "KO_DATA_DATE_EPOCH=" + epoch}
	reference, err := output(ctx, environment, "go", append(arguments, "./cmd/"+operator)...)
	if err != nil {
		return fmt.Errorf("build the image, on the base of .ko.yaml or of KO_DEFAULTBASEIMAGE: %w", err)
	}
	if err := r.publishImageSBOMs(scratch); err != nil {
		return err
	}
	if err := publish(filepath.Join(r.dist, "image.txt"), reference); err != nil {
		return err
	}
	if base := os.Getenv("KO_DEFAULTBASEIMAGE"); base != "" {
		if err := publish(filepath.Join(r.dist, "image-base.txt"), []byte(base+"\n")); err != nil {
			return err
		}
	}
	fmt.Fprintf(r.progress, "image %s", reference)
	if os.Getenv("KO_DOCKER_REPO") != "" {
		return nil
	}
	files, err := filesOf(layout)
	if err != nil {
		return err
	}
	return pack(filepath.Join(r.dist, "bursar-image.tar"), files, r.time)
}

// writeKodata writes the licences and notices in the image.
func (r *release) writeKodata(ctx context.Context) error {
	linked, err := componentsOf(ctx, target{platform: platform{"linux", "amd64"}}.environment(), "./cmd/"+operator)
	if err != nil {
		return err
	}
	classify, err := newClassifier()
	if err != nil {
		return err
	}
	if err := classify.all(linked); err != nil {
		return err
	}
	files, err := legalFiles(linked)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(kodata, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		if err := publish(filepath.Join(kodata, f.name), f.content); err != nil {
			return err
		}
	}
	return nil
}

// publishImageSBOMs publishes the bills of materials in a folder, as written by ko.
func (r *release) publishImageSBOMs(folder string) error {
	found, err := filepath.Glob(filepath.Join(folder, "*.spdx.json"))
	if err != nil {
		return err
	}
	for _, path := range found {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := publish(filepath.Join(r.dist, "image-"+filepath.Base(path)), content); err != nil {
			return err
		}
	}
	return nil
}

// filesOf returns the files below a folder, by name.
func filesOf(folder string) ([]file, error) {
	var files []file
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		files = append(files, file{filepath.ToSlash(name), readable, content})
		return err
	})
	return files, err
}
