// Package browser uses the web console as people do: in Chromium, driven by chromedp, on a standalone server with three
// persons. axe-core checks the pages.
package browser

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/bursar/bursar/test/process"
)

// images is a folder for screenshots: go test ./test/campaign/browser -images docs/images.
var images = flag.String("images", "", "folder, in the root of the repository, into which to write the screenshots of the documentation")

// shared is the state common to the tests.
var shared struct {
	world   *world
	browser context.Context
	// axe is the script of axe-core.
	axe string
}

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	chromium, axe, err := install()
	if err != nil {
		fmt.Fprintf(os.Stderr, "SKIPPED: the console is not tested in a browser: %v\n", err)
		return 0
	}
	shared.axe = axe
	binary, err := process.Build()
	if err == nil {
		shared.world, err = newWorld(binary)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer shared.world.close()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("ignore-certificate-errors", true), chromedp.Flag("hide-scrollbars", true),
	)
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	browser, end := chromedp.NewContext(allocator)
	defer end()
	if err := chromedp.Do(browser); err != nil {
		fmt.Fprintf(os.Stderr, "start %s: %v\n", chromium, err)
		return 1
	}
	shared.browser = browser
	return m.Run()
}

// install installs the browser and axe-core, and returns the path of one and the content of the other.
func install() (chromium, axe string, err error) {
	root, err := process.Root()
	if err != nil {
		return "", "", err
	}
	if output, err := exec.Command(filepath.Join(root, "hack/browser/install")).CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("hack/browser/install: %w\n%s", err, output)
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if chromium, err = exec.LookPath(name); err == nil {
			break
		}
	}
	if chromium == "" {
		return "", "", errors.New("there is no Chromium, and it cannot be installed here")
	}
	files, err := filepath.Glob(filepath.Join(root, "bin/browser/axe-*.min.js"))
	if err != nil || len(files) == 0 {
		return "", "", errors.New("axe-core is not installed")
	}
	content, err := os.ReadFile(files[0])
	return chromium, string(content), err
}
