package main

import (
	"bytes"
	"embed"
	"html/template"
	"io/fs"
	"path"
)

// The scripts of the folder of libraries that the site uses if they are there.
const (
	searchLibrary  = "minisearch.js"
	diagramLibrary = "mermaid.js"
	// librariesFolder is the folder of the site that has them.
	librariesFolder = "libraries"
)

//go:embed theme
var theme embed.FS

var layout = template.Must(template.ParseFS(theme, "theme/*.html"))

// view is what the layout shows. Links are relative to the page.
type view struct {
	Title, Root, Source string
	Content             template.HTML
	Home, Index         *entry
	Sections            []sectionView
	Contents            []heading
	Previous, Next      *entry
	Search, Diagrams    bool
}

// sectionView is a section of the navigation, seen from one page.
type sectionView struct {
	Title string
	Open  bool
	Pages []entry
}

// entry is a link of the navigation.
type entry struct {
	Title, URL string
	Current    bool
}

// layOut returns the page as HTML, with everything around it.
func (p *page) layOut(content template.HTML, sections []*section, pages map[string]*page, repository string, libraries map[string][]byte) ([]byte, error) {
	shown := view{
		Title: p.title, Root: relative(p.path, "."), Source: repository + "/blob/HEAD/" + p.source, Content: content,
		Home: p.entry(pages[home]), Index: p.entry(pages[index]),
		Search: libraries[searchLibrary] != nil, Diagrams: p.diagrams && libraries[diagramLibrary] != nil,
	}
	for _, heading := range p.headings {
		if heading.Level == 2 || heading.Level == 3 {
			shown.Contents = append(shown.Contents, heading)
		}
	}
	for _, s := range sections {
		seen := sectionView{Title: s.title, Open: s.isIndexed && (p.source == home || p.source == index)}
		for i, other := range s.pages {
			seen.Pages = append(seen.Pages, *p.entry(other))
			if other != p {
				continue
			}
			seen.Open = true
			if i > 0 {
				shown.Previous = p.entry(s.pages[i-1])
			}
			if i+1 < len(s.pages) {
				shown.Next = p.entry(s.pages[i+1])
			}
		}
		shown.Sections = append(shown.Sections, seen)
	}
	var page bytes.Buffer
	err := layout.ExecuteTemplate(&page, "page.html", shown)
	return page.Bytes(), err
}

// entry returns a link from the page to another one: none, if there is no other.
func (p *page) entry(other *page) *entry {
	if other == nil {
		return nil
	}
	return &entry{Title: other.title, URL: relative(p.path, other.path), Current: p == other}
}

// addTheme adds the style and the scripts to the files of the site.
func addTheme(files, libraries map[string][]byte) error {
	for _, name := range []string{"site.css", "site.js"} {
		content, err := fs.ReadFile(theme, "theme/"+name)
		if err != nil {
			return err
		}
		files[name] = content
	}
	for name, content := range libraries {
		files[path.Join(librariesFolder, name)] = content
	}
	return nil
}
