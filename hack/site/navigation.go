package main

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

const (
	home  = "README.md"
	index = docs + "/README.md"
	// project is the section of pages in the root of the repository without a place in the index.
	project = "Project"
)

// order has the folders of docs as a reader meets them. Sections without a place in the index follow it.
var order = []string{"tutorials", "tasks", "concepts", "reference", "design", "contributing"}

// section is a part of the navigation.
type section struct {
	title string
	pages []*page
	// isIndexed reports whether the section is a heading of the index.
	isIndexed bool
}

// navigation returns the sections of the site. A heading of the index with links to pages below it is a section with
// these pages in this order. Pages without a place in the index follow those of their folder, by their titles. A folder
// without a page in the index is a section of its own.
func navigation(pages map[string]*page) []*section {
	sections, placed := indexed(pages)
	var rest []*page
	for _, p := range pages {
		if placed[p.source] == nil && p.source != home && p.source != index {
			rest = append(rest, p)
		}
	}
	slices.SortFunc(rest, func(a, b *page) int {
		return cmp.Or(cmp.Compare(rank(a.source), rank(b.source)), strings.Compare(path.Dir(a.source), path.Dir(b.source)),
			strings.Compare(strings.ToLower(a.title), strings.ToLower(b.title)), strings.Compare(a.source, b.source))
	})
	folders := map[string]*section{}
	for _, s := range sections {
		for _, p := range s.pages {
			// What is in the root, or of docs, belongs together no more than by chance.
			if folder := path.Dir(p.source); folder != "." && folder != docs && folders[folder] == nil {
				folders[folder] = s
			}
		}
	}
	for _, p := range rest {
		folder := path.Dir(p.source)
		found := folders[folder]
		if found == nil {
			found = &section{title: titleOf(folder)}
			sections = append(sections, found)
			folders[folder] = found
		}
		found.pages = append(found.pages, p)
	}
	return sections
}

// indexed returns the sections of the index, and the section of each page in them. The last one counts: an introduction
// may link to pages of later sections.
func indexed(pages map[string]*page) (sections []*section, placed map[string]*section) {
	placed = map[string]*section{}
	contents := pages[index]
	if contents == nil {
		return nil, placed
	}
	var current *section
	for node := contents.document.FirstChild(); node != nil; node = node.NextSibling() {
		if title, ok := node.(*ast.Heading); ok {
			current = nil
			if title.Level > 1 {
				current = &section{title: contents.text(title), isIndexed: true}
				sections = append(sections, current)
			}
			continue
		}
		for _, listed := range contents.linked(node, pages) {
			if current == nil || placed[listed.source] == current || listed.source == home || listed.source == index {
				continue
			}
			placed[listed.source] = current
			current.pages = append(current.pages, listed)
		}
	}
	for _, s := range sections {
		s.pages = slices.DeleteFunc(s.pages, func(p *page) bool { return placed[p.source] != s })
	}
	return slices.DeleteFunc(sections, func(s *section) bool { return len(s.pages) == 0 }), placed
}

// linked returns the target pages of the links in a part of the page.
func (p *page) linked(part ast.Node, pages map[string]*page) []*page {
	var list []*page
	_ = ast.Walk(part, func(node ast.Node, entering bool) (ast.WalkStatus, error) { // fails never
		if link, ok := node.(*ast.Link); ok && entering {
			if file, _, ok := p.target(string(link.Destination)); ok && pages[file] != nil {
				list = append(list, pages[file])
			}
		}
		return ast.WalkContinue, nil
	})
	return list
}

// rank returns the place of the folder of a page among the sections. The root of the repository is last.
func rank(source string) int {
	parts := strings.Split(source, "/")
	if len(parts) == 1 {
		return len(order) + 1
	}
	if place := slices.Index(order, parts[1]); place >= 0 {
		return place
	}
	return len(order)
}

// titleOf returns the title of the section of a folder without a place in the index.
func titleOf(folder string) string {
	if folder == "." {
		return project
	}
	name := path.Base(folder)
	return strings.ToUpper(name[:1]) + name[1:]
}
