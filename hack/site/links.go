package main

import (
	"io/fs"
	"net/url"
	"path"
	"path/filepath"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// resolveLinks makes links between files of the repository lead to pages of the site, and to GitHub where the file is
// no page. It leaves dead links as they are: check reports them.
func (p *page) resolveLinks(source fs.FS, pages map[string]*page, repository string) {
	_ = ast.Walk(p.document, func(node ast.Node, entering bool) (ast.WalkStatus, error) { // fails never
		if link, ok := node.(*ast.Link); ok && entering {
			link.Destination = []byte(p.resolve(string(link.Destination), source, pages, repository))
		}
		return ast.WalkContinue, nil
	})
}

func (p *page) resolve(destination string, source fs.FS, pages map[string]*page, repository string) string {
	file, fragment, ok := p.target(destination)
	if !ok {
		return destination
	}
	for _, name := range []string{file, path.Join(file, "README.md")} {
		if other := pages[name]; other != nil {
			return (&url.URL{Path: relative(p.path, other.path), Fragment: fragment}).String()
		}
	}
	info, err := fs.Stat(source, file)
	if err != nil || isAsset(file) && strings.HasPrefix(file, docs+"/") {
		return destination
	}
	kind := "blob"
	if info.IsDir() {
		kind = "tree"
	}
	// GitHub has the default branch under this name, too.
	link, err := url.Parse(repository)
	if err != nil {
		return destination
	}
	link = link.JoinPath(kind, "HEAD", file)
	link.Fragment = fragment
	return link.String()
}

// relative returns the link from one file of the site to another.
func relative(from, to string) string {
	link, err := filepath.Rel(path.Dir(from), to)
	if err != nil {
		panic(err) // both are relative
	}
	return filepath.ToSlash(link)
}
