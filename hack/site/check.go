package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// document has the facts about a page of the site for links and anchors.
type document struct {
	anchors map[string]bool
	// links lead to other pages, and a browser loads parts to show this one.
	links, parts []string
}

// check returns an error for each dead link of the site, and for each part from the network. It asks no other host.
func check(files map[string][]byte, pages map[string]*page) error {
	documents, sources := map[string]document{}, map[string]string{}
	for name, content := range files {
		if path.Ext(name) == ".html" {
			read, err := readDocument(content)
			if err != nil {
				return fmt.Errorf("read %s of the site: %w", name, err)
			}
			documents[name] = read
		}
	}
	for _, p := range pages {
		sources[p.path] = p.source
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(documents)) {
		of := documents[name]
		for _, part := range of.parts {
			if link, err := url.Parse(part); err == nil && link.Scheme != "data" && (link.Scheme != "" || link.Host != "") {
				errs = append(errs, fmt.Errorf("%s needs %s, and the site must work without a network: put it into %s", sources[name], part, docs))
			}
		}
		for _, link := range slices.Compact(slices.Sorted(slices.Values(append(of.links, of.parts...)))) {
			if problem := dead(name, link, files, documents, sources); problem != "" {
				errs = append(errs, fmt.Errorf("%s links to %s: %s", sources[name], link, problem))
			}
		}
	}
	return errors.Join(errs...)
}

// dead says why a link of a file leads nowhere. It is empty if the link is good, or leads to another host.
func dead(name, destination string, files map[string][]byte, documents map[string]document, sources map[string]string) string {
	link, err := url.Parse(destination)
	if err != nil {
		return "it is no URL"
	}
	if link.Scheme != "" || link.Host != "" {
		return ""
	}
	target := path.Join(path.Dir(name), link.Path)
	if link.Path == "" {
		target = name
	}
	if _, ok := files[target]; !ok || path.IsAbs(link.Path) {
		return "the repository has no such file"
	}
	if link.Fragment != "" && !documents[target].anchors[link.Fragment] {
		return fmt.Sprintf("%s has no such heading", sources[target])
	}
	return ""
}

// readDocument reads the anchors and links of a page.
func readDocument(content []byte) (document, error) {
	root, err := html.Parse(bytes.NewReader(content))
	if err != nil {
		return document{}, err
	}
	read := document{anchors: map[string]bool{}}
	for node := range root.Descendants() {
		if node.Type != html.ElementNode {
			continue
		}
		for _, attribute := range node.Attr {
			value := strings.TrimSpace(attribute.Val)
			switch {
			case attribute.Key == "id", attribute.Key == "name" && node.Data == "a":
				read.anchors[value] = true
			case attribute.Key == "href" && node.Data == "a":
				read.links = append(read.links, value)
			case attribute.Key == "href" && node.Data == "link", attribute.Key == "src":
				read.parts = append(read.parts, value)
			}
		}
	}
	return read, nil
}
