// Package backup writes the objects needed to have the same quota again into a file or directory, and reads them. Only
// commands import it.
//
// A backup has a file for each kind, with an object in a line, and a manifest with their checksums. It has people's
// declarations, the claims, and the requests with the decisions on them, all in their stored form. It also has what
// quota depends on: namespaces with their labels, and the consumers, roles and protection of bursar import. It lacks
// ledgers, buckets and effective grants, because Bursar derives them from these. All files show one state of the API
// server, because its versions count the changes of all kinds.
package backup

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/bursar/bursar/internal/cli/quotakinds"
)

// Options choose the server to back up, and the place of the backup.
type Options struct {
	// Discovery and Dynamic reach the API server with the rights of the caller.
	Discovery discovery.DiscoveryInterface
	Dynamic   dynamic.Interface
	// Path is the file to write. It is a directory if one of that name exists, or if it ends with a slash.
	Path string
	// Version is the version of the program.
	Version string
}

// Write writes a backup, and returns its manifest. If it is interrupted, the file or directory has either the earlier
// backup or this one, whole.
func Write(ctx context.Context, o Options) (*Manifest, error) {
	kinds, err := findKinds(o.Discovery)
	if err != nil {
		return nil, err
	}
	parent, isInDirectory := filepath.Dir(filepath.Clean(o.Path)), isDirectory(o.Path)
	if isInDirectory {
		parent = o.Path // it may be a file system of its own
		if err := prepareDirectory(parent); err != nil {
			return nil, err
		}
	}
	removeParts(parent)
	dir, err := os.MkdirTemp(parent, partPrefix)
	if err != nil {
		return nil, fmt.Errorf("make a directory in %s: %w", parent, err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // a later backup removes a leftover
	w := &writer{Options: o, dir: dir}
	manifest := &Manifest{FormatVersion: formatVersion, Bursar: o.Version, CreatedAt: metav1.NewTime(time.Now().UTC().Truncate(time.Second))}
	isOneState := true
	for _, kind := range kinds {
		file, err := w.writeKind(ctx, kind)
		if err != nil {
			return nil, err
		}
		isOneState = isOneState && (len(manifest.Files) == 0 || manifest.Files[0].ResourceVersion == file.ResourceVersion)
		manifest.Files = append(manifest.Files, *file)
	}
	if isOneState {
		manifest.ResourceVersion = w.version
	}
	content, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the manifest: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, manifestName), append(content, '\n'), 0o600); err != nil {
		return nil, fmt.Errorf("write the manifest: %w", err)
	}
	if isInDirectory {
		return manifest, moveInto(dir, o.Path)
	}
	return manifest, pack(dir, o.Path, manifest)
}

// findKinds returns the kinds of a backup, in the order of a restore.
func findKinds(api discovery.DiscoveryInterface) ([]quotakinds.Kind, error) {
	kinds, err := quotakinds.Find(api)
	if err != nil {
		return nil, err
	}
	imported, err := quotakinds.FindImported(api)
	if err != nil {
		return nil, err
	}
	kinds = quotakinds.WithRoles(kinds, quotakinds.Declared, quotakinds.Recorded)
	return slices.Concat([]quotakinds.Kind{quotakinds.Namespaces}, imported, kinds), nil
}

// writer writes the files of one backup.
type writer struct {
	Options
	dir string
	// version is the state of the API server in the files. It is empty before the first file.
	version string
}

// writeKind writes the objects of a kind. If the API server no longer has the state of the files before, it continues
// with the present one.
func (w *writer) writeKind(ctx context.Context, kind quotakinds.Kind) (*File, error) {
	if w.version == "" {
		version, err := kind.Version(ctx, w.Dynamic)
		if err != nil {
			return nil, err
		}
		w.version = version
	}
	file, err := w.tryKind(ctx, kind)
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		w.version = ""
		return w.writeKind(ctx, kind)
	}
	return file, err
}

func (w *writer) tryKind(ctx context.Context, kind quotakinds.Kind) (*File, error) {
	described := &File{Name: kind.String() + ".jsonl", Resource: kind.String(), ResourceVersion: w.version}
	file, err := os.OpenFile(filepath.Join(w.dir, described.Name), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("write the backup: %w", err)
	}
	sum := sha256.New()
	out := bufio.NewWriter(io.MultiWriter(file, sum))
	_, err = kind.Each(ctx, w.Dynamic, w.version, func(object *unstructured.Unstructured) error {
		object.SetManagedFields(nil)
		content, err := json.Marshal(object.Object)
		if err != nil {
			return fmt.Errorf("encode %s %s: %w", kind.Kind, quotakinds.Name(object), err)
		}
		described.Objects++
		_, err = out.Write(append(content, '\n'))
		return err
	})
	if err == nil {
		err = out.Flush()
	}
	if errClose := file.Close(); err == nil {
		err = errClose
	}
	if err != nil {
		return nil, fmt.Errorf("back up %s: %w", kind, err)
	}
	described.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return described, nil
}
