package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
)

// assets are the script, style and icon files. htmx is https://www.npmjs.com/package/htmx.org, unchanged.
//
//go:embed assets
var assets embed.FS

// assetsVersion changes with the assets, so browsers may keep a file for good.
var assetsVersion = func() string {
	hash := sha256.New()
	err := fs.WalkDir(assets, "assets", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := assets.ReadFile(path)
		hash.Write(content)
		return err
	})
	if err != nil {
		panic(err) // embedded files are readable
	}
	return hex.EncodeToString(hash.Sum(nil))[:12]
}()

// asset returns the URL of a file.
func asset(name string) string { return Base + "/assets/" + name + "?v=" + assetsVersion }

func assetsHandler() http.Handler {
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // the name is valid
	}
	server := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "" {
			http.NotFound(w, r)
			return
		}
		if r.URL.Query().Get("v") == assetsVersion {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		server.ServeHTTP(w, r)
	})
}
