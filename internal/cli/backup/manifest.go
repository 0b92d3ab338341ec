package backup

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// manifestName is the name of the file about the others.
	manifestName = "manifest.json"
	// formatVersion is the version of the form of backups. It increases with every change that an earlier version of
	// Bursar would misread.
	// Format 2 adds namespaces and the objects of imports.
	formatVersion = 2
)

// Manifest describes a backup.
type Manifest struct {
	// FormatVersion is the version of the form of the backup.
	FormatVersion int `json:"formatVersion"`
	// Bursar is the version of the program that wrote the backup.
	Bursar string `json:"bursar"`
	// CreatedAt is the time at the start of the backup.
	CreatedAt metav1.Time `json:"createdAt"`
	// ResourceVersion is the state of the API server in all files. It is empty if they show several states: the API server
	// compacted the first one before the end, and each file then shows one of its own.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Files are the files, in the order of their kinds.
	Files []File `json:"files"`
}

// File describes the objects of one kind.
type File struct {
	// Name is the name of the file. It has an object in a line, as JSON.
	Name string `json:"name"`
	// Resource is the full name of the resource, such as resourceclaims.quota.miloapis.com.
	Resource string `json:"resource"`
	// Objects is the number of objects.
	Objects int `json:"objects"`
	// SHA256 is the checksum of the file, in hexadecimal.
	SHA256 string `json:"sha256"`
	// ResourceVersion is the state of the API server in this file.
	ResourceVersion string `json:"resourceVersion"`
}

// Objects returns the number of all objects.
func (m *Manifest) Objects() int {
	count := 0
	for _, file := range m.Files {
		count += file.Objects
	}
	return count
}

// Has reports whether the backup has objects of a resource, by its full name.
func (m *Manifest) Has(resource string) bool {
	return slices.ContainsFunc(m.Files, func(f File) bool { return f.Resource == resource && f.Objects > 0 })
}

// HasNamespaces reports whether the backup has the labels of namespaces. The first format lacks them.
func (m *Manifest) HasNamespaces() bool { return m.FormatVersion > 1 }

func readManifest(path string) (*Manifest, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return decodeManifest(content)
}

// decodeManifest reads a manifest, and rejects one of a later form.
func decodeManifest(content []byte) (*Manifest, error) {
	m := &Manifest{}
	if err := json.Unmarshal(content, m); err != nil {
		return nil, fmt.Errorf("%s is not the manifest of a backup: %w", manifestName, err)
	}
	if m.FormatVersion < 1 || m.FormatVersion > formatVersion {
		return nil, fmt.Errorf("the backup has format %d, written by Bursar %s; this version reads formats up to %d: restore it with a later version",
			m.FormatVersion, m.Bursar, formatVersion)
	}
	return m, nil
}
