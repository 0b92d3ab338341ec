package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
	"time"
)

// preview serves the site from memory.
type preview struct {
	source    fs.FS
	libraries map[string][]byte

	mu    sync.Mutex
	files map[string][]byte
}

// serve serves the site until an interrupt. The address has a port of its own if it ends with :0.
func serve(address string, source fs.FS, libraries map[string][]byte) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("serve the site: %w", err)
	}
	fmt.Printf("http://%s/\n", listener.Addr())
	server := &http.Server{Handler: &preview{source: source, libraries: libraries}, ReadHeaderTimeout: 10 * time.Second}
	return server.Serve(listener)
}

// ServeHTTP builds the site again for each page, so that a reload shows the latest text, and prints its errors.
func (p *preview) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := strings.TrimPrefix(path.Clean(request.URL.Path), "/")
	if strings.HasSuffix(request.URL.Path, "/") {
		name = path.Join(name, "index.html")
	}
	if path.Ext(name) == ".html" || p.files == nil {
		files, err := build(p.source, p.libraries)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		if files == nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		p.files = files
	}
	content, ok := p.files[name]
	if !ok {
		http.NotFound(w, request)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	http.ServeContent(w, request, name, time.Time{}, bytes.NewReader(content))
}
