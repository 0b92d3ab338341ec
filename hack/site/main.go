// Site builds the documentation as a static site: the pages of docs and those in the root of the repository.
//
//	site -out bin/site
//	site -serve localhost:8000
//
// Run it in the root of the repository. A page is a Markdown file without front matter. Its title is its first heading,
// and the README.md of a folder is the index page of the folder. Links to other files of the repository lead to GitHub.
// A dead link or anchor is an error. The site needs no network: search and diagrams are made by the scripts that
// hack/site/install fetched. Without them there is no search, and diagrams stay text.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

func main() {
	out := flag.String("out", "bin/site", "folder to write the site to")
	address := flag.String("serve", "", "address to serve the site at instead, built again for each page that is opened")
	libraries := flag.String("libraries", "bin/site-libraries", "folder with the scripts that hack/site/install fetched")
	flag.Parse()
	if err := run(*out, *address, *libraries); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func run(out, address, libraries string) error {
	source := os.DirFS(".")
	scripts, err := readLibraries(os.DirFS(libraries))
	if err != nil {
		return fmt.Errorf("read scripts in %s: %w", libraries, err)
	}
	if address != "" {
		return serve(address, source, scripts)
	}
	files, err := build(source, scripts)
	if err != nil {
		return err
	}
	if err := write(out, files); err != nil {
		return fmt.Errorf("write the site to %s: %w", out, err)
	}
	fmt.Printf("%d files in %s\n", len(files), out)
	return nil
}

// readLibraries returns the files of a folder by name: none, if the folder does not exist.
func readLibraries(folder fs.FS) (map[string][]byte, error) {
	entries, err := fs.ReadDir(folder, ".")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, entry := range entries {
		if files[entry.Name()], err = fs.ReadFile(folder, entry.Name()); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// write replaces a folder by the files of a site. It replaces nothing but an earlier site.
func write(out string, files map[string][]byte) error {
	if _, err := os.Stat(out); err == nil {
		if _, err := os.Stat(filepath.Join(out, searchIndex)); err != nil {
			return errors.New("the folder exists and is no site; delete it or name another one")
		}
	}
	fresh := out + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	for name, content := range files {
		name = filepath.Join(fresh, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, content, 0o644); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	return os.Rename(fresh, out)
}

// isAsset reports whether a file of the repository is copied to the site as it is.
func isAsset(name string) bool {
	switch path.Ext(name) {
	case ".png", ".svg", ".jpg", ".gif", ".webp":
		return true
	}
	return false
}
