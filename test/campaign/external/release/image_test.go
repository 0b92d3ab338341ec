package release

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeIndex    = "application/vnd.oci.image.index.v1+json"
)

// base is a registry with one empty image, instead of the base for ko.
func base(t *testing.T) string {
	t.Helper()
	blobs := map[string]string{}
	types := map[string]string{}
	store := func(mediaType string, value any) map[string]any {
		content, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		digest := fmt.Sprintf("sha256:%x", sha256.Sum256(content))
		blobs[digest], types[digest] = string(content), mediaType
		return map[string]any{"mediaType": mediaType, "digest": digest, "size": len(content)}
	}
	system := map[string]any{"os": "linux", "architecture": runtime.GOARCH}
	config := store(typeConfig, map[string]any{
		"os": "linux", "architecture": runtime.GOARCH, "config": map[string]any{"Env": []string{"SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{}},
	})
	manifest := store(typeManifest, map[string]any{"schemaVersion": 2, "mediaType": typeManifest, "config": config, "layers": []string{}})
	manifest["platform"] = system
	index := store(typeIndex, map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": []any{manifest}})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		digest := path.Base(r.URL.Path)
		if digest == "latest" {
			digest = index["digest"].(string)
		}
		content, ok := blobs[digest]
		switch {
		case r.URL.Path == "/v2/":
		case !ok:
			http.NotFound(w, r)
		default:
			w.Header().Set("Content-Type", types[digest])
			w.Header().Set("Docker-Content-Digest", digest)
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			if r.Method != http.MethodHead {
				fmt.Fprint(w, content)
			}
		}
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://") + "/base:latest"
}

// TestImage makes the image on a base from a local registry, and looks at it as a container runtime does.
func TestImage(t *testing.T) {
	base := base(t)
	environment := []string{"KO_DEFAULTBASEIMAGE=" + base, "KOCACHE=" + t.TempDir()}
	dist := makeRelease(t, environment, "-binaries", "bursar-operator", "-platforms", "linux-"+runtime.GOARCH, "-parts", "image")
	checkSums(t, dist, "bursar-image.tar", "image.txt", "image-base.txt")
	if got := string(open(t, dist+"/image-base.txt")); got != base+"\n" {
		t.Errorf("the release names the base %q, want %s", got, base)
	}
	layout := unpack(t, open(t, dist+"/bursar-image.tar"))
	type descriptor struct{ MediaType, Digest string }
	blob := func(d descriptor, into any) {
		t.Helper()
		if err := json.Unmarshal([]byte(layout["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]), into); err != nil {
			t.Fatalf("%s of the image: %v", d.MediaType, err)
		}
	}
	var index struct{ Manifests []descriptor }
	if err := json.Unmarshal([]byte(layout["index.json"]), &index); err != nil || len(index.Manifests) != 1 {
		t.Fatalf("the layout has %d images: %v", len(index.Manifests), err)
	}
	of := index.Manifests[0]
	if of.MediaType == typeIndex {
		blob(of, &index)
		of = index.Manifests[0]
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	blob(of, &manifest)
	var config struct {
		Created string
		Config  struct {
			User            string
			Entrypoint, Env []string
			Labels          map[string]string
		}
	}
	blob(manifest.Config, &config)
	if config.Config.User != "65532:65532" || config.Created != "2023-11-14T22:13:20Z" || config.Config.Labels["org.opencontainers.image.licenses"] != "Apache-2.0" {
		t.Errorf("the image has the configuration %+v", config)
	}
	if diff := cmp.Diff([]string{"/ko-app/bursar-operator"}, config.Config.Entrypoint); diff != "" {
		t.Errorf("entrypoint (-want +got):\n%s", diff)
	}
	if !strings.Contains(strings.Join(config.Config.Env, " "), "SSL_CERT_FILE=") {
		t.Errorf("the image lacks the environment of its base: %q", config.Config.Env)
	}
	files := map[string]string{}
	for _, layer := range manifest.Layers {
		for name, content := range unpack(t, []byte(layout["blobs/"+strings.Replace(layer.Digest, ":", "/", 1)])) {
			files[strings.TrimPrefix(name, "/")] = content
		}
	}
	for _, want := range []string{"ko-app/bursar-operator", "var/run/ko/LICENSE", "var/run/ko/NOTICE", "var/run/ko/THIRD_PARTY_NOTICES.txt"} {
		if files[want] == "" {
			t.Errorf("the image lacks %s", want)
		}
	}
}
