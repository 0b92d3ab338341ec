package main

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// docs is the folder of the documentation in the repository.
const docs = "docs"

// build returns the files of the site by path. The error names every dead link of every page.
func build(source fs.FS, libraries map[string][]byte) (map[string][]byte, error) {
	module, err := fs.ReadFile(source, "go.mod")
	if err != nil {
		return nil, fmt.Errorf("find the repository: %w", err)
	}
	repository := "https://" + modfile.ModulePath(module)
	pages, files, err := read(source)
	if err != nil {
		return nil, err
	}
	sections := navigation(pages)
	records := []record{}
	for _, p := range sorted(pages) {
		records = append(records, p.records()...)
	}
	for _, p := range sorted(pages) {
		p.resolveLinks(source, pages, repository)
		var content bytes.Buffer
		if err := markdown.Renderer().Render(&content, p.content, p.document); err != nil {
			return nil, fmt.Errorf("render %s: %w", p.source, err)
		}
		if _, ok := files[p.path]; ok {
			return nil, fmt.Errorf("%s and another file both become %s of the site", p.source, p.path)
		}
		// Markdown has no table without a header, and a header without a word is none.
		html := template.HTML(strings.ReplaceAll(content.String(), "<th></th>", "<td></td>"))
		if files[p.path], err = p.layOut(html, sections, pages, repository, libraries); err != nil {
			return nil, fmt.Errorf("lay out %s: %w", p.source, err)
		}
	}
	if files[searchIndex], err = searchScript(records); err != nil {
		return nil, err
	}
	if err := addTheme(files, libraries); err != nil {
		return nil, err
	}
	return files, check(files, pages)
}

// read returns the pages of the repository by their path there, and the images that they may show by path in the site.
func read(source fs.FS) (map[string]*page, map[string][]byte, error) {
	pages, files := map[string]*page{}, map[string][]byte{}
	add := func(name string) error {
		isPage := path.Ext(name) == ".md"
		if !isPage && !isAsset(name) {
			return nil
		}
		content, err := fs.ReadFile(source, name)
		if err != nil {
			return err
		}
		if !isPage {
			files[name] = content
			return nil
		}
		pages[name], err = parse(name, content)
		return err
	}
	inRoot, err := fs.Glob(source, "*.md")
	if err != nil {
		return nil, nil, err
	}
	for _, name := range inRoot {
		err = errors.Join(err, add(name))
	}
	walked := fs.WalkDir(source, docs, func(name string, entry fs.DirEntry, walkErr error) error {
		if walkErr != nil {
			return walkErr
		}
		if !entry.IsDir() {
			err = errors.Join(err, add(name))
		}
		return nil
	})
	return pages, files, errors.Join(err, walked)
}

// sorted returns pages by their paths.
func sorted(pages map[string]*page) []*page {
	var list []*page
	for _, p := range pages {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *page) int { return strings.Compare(a.source, b.source) })
	return list
}
