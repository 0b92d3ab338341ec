// Package process runs the bursar binary for tests, as a user would.
package process

import (
	"bufio"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// startTimeout bounds how long a server may take to be ready. It is generous, because other
// tests run beside it.
const startTimeout = 2 * time.Minute

// RequestTimeout is the request timeout of API servers in tests that wait for the quota of cut-off creates. The quota
// returns 10 s later, and after 70 s by default.
const RequestTimeout = 15 * time.Second

// Parallel lets so many tests of a package run beside each other, on any number of CPUs: tests of processes mostly
// wait. TestMain calls it.
func Parallel(tests int) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(tests)); err != nil {
		panic(err)
	}
}

// Build builds bursar once for all tests of a process and returns its path. BuildOperator does so for the program of
// the container image, and BuildPlugin for the plugin of kubectl.
var (
	Build         = sync.OnceValues(func() (string, error) { return build("bursar") })
	BuildOperator = sync.OnceValues(func() (string, error) { return build("bursar-operator") })
	BuildPlugin   = sync.OnceValues(func() (string, error) { return build("kubectl-bursar") })
)

// Root returns the root of the repository.
var Root = sync.OnceValues(func() (string, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return strings.TrimSpace(string(root)), nil
})

func build(command string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	if err := Touch(root, "api", "cmd", "deploy", "internal"); err != nil {
		return "", fmt.Errorf("look at the sources: %w", err)
	}
	dir, err := os.MkdirTemp("", "bursar-test-")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, command)
	kubernetes, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes").Output()
	if err != nil {
		return "", fmt.Errorf("find the version of Kubernetes: %w", err)
	}
	// As the Makefile does.
	flags := "-X k8s.io/component-base/version.gitVersion=" + strings.TrimSpace(string(kubernetes)) + "+bursar.test"
	build := exec.Command("go", "build", "-ldflags", flags, "-o", binary, "./cmd/"+command)
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", command, err, output)
	}
	return binary, nil
}

// Touch looks at all files in some folders of the module, for a program that reads them during a test. The test cache
// takes only the files read by the test itself into account. It ignores the files read by a command. After Touch, a
// change of these files runs the test again.
func Touch(root string, folders ...string) error {
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(_ string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			_, err = os.Stat(filepath.Join(root, folder))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// FreeAddress is host:port on the loopback interface without a listener.
func FreeAddress(t testing.TB) string {
	t.Helper()
	address, err := FindFreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// FindFreeAddress is FreeAddress for callers outside of tests. The kernel takes the ports of connections, and of
// listeners on port 0, from a range above 30000. A port below is likely still free when the caller listens there.
func FindFreeAddress() (string, error) {
	for range 100 {
		if address, err := freeAddress(10_000 + rand.IntN(20_000)); err == nil {
			return address, nil
		}
	}
	return freeAddress(0)
}

// freeAddress returns host:port for a port without a listener. For 0, the kernel chooses the port.
func freeAddress(port int) (string, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close() //nolint:errcheck // it listens to nobody
	return listener.Addr().String(), nil
}

// Server is a running `bursar standalone`.
type Server struct {
	t       testing.TB
	command *exec.Cmd
	ended   chan struct{}
	dir     string
	mu      sync.Mutex
	output  []string
}

// Start starts a server on a data directory and waits until it reports that it is ready.
func Start(t testing.TB, dir string, arguments ...string) *Server {
	t.Helper()
	binary, err := Build()
	if err != nil {
		t.Fatal(err)
	}
	arguments = append([]string{"standalone", "--data-dir", dir, "--listen", "127.0.0.1:0"}, arguments...)
	s := &Server{t: t, dir: dir, ended: make(chan struct{}), command: exec.Command(binary, arguments...)}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.command.Stdout, s.command.Stderr = writer, writer
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	_ = writer.Close()
	ready := make(chan struct{})
	go func() {
		s.read(reader, ready) // to the last line, before anybody learns of the end
		_ = s.command.Wait()
		close(s.ended)
	}()
	t.Cleanup(s.Kill)
	select {
	case <-ready:
	case <-s.ended:
		t.Fatalf("the server ended before it was ready:\n%s", s.Output())
	case <-time.After(startTimeout):
		t.Fatalf("the server was not ready after %s:\n%s", startTimeout, s.Output())
	}
	return s
}

func (s *Server) read(reader *os.File, ready chan struct{}) {
	lines := bufio.NewScanner(reader)
	isReady := false
	for lines.Scan() {
		s.mu.Lock()
		s.output = append(s.output, lines.Text())
		s.mu.Unlock()
		if !isReady && strings.Contains(lines.Text(), "admin.kubeconfig") && strings.Contains(lines.Text(), "ready") {
			isReady = true
			close(ready)
		}
	}
}

// Output is the output of the server so far.
func (s *Server) Output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.output, "\n")
}

// Kubeconfig is the path of the administrator's kubeconfig.
func (s *Server) Kubeconfig() string { return filepath.Join(s.dir, "admin.kubeconfig") }

// Config reaches the server as its administrator.
func (s *Server) Config() *rest.Config {
	s.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig())
	if err != nil {
		s.t.Fatal(err)
	}
	config.QPS = -1
	return config
}

// Kill ends the server like a power cut, and waits for its end.
func (s *Server) Kill() {
	_ = s.command.Process.Kill()
	<-s.ended
}

// Signal sends a signal. The signal has no effect on an ended server.
func (s *Server) Signal(signal syscall.Signal) { _ = s.command.Process.Signal(signal) }

// Stop asks the server to end, waits until it has, and returns its exit code. It logs the server's record of a stop
// that got stuck, if there is one.
func (s *Server) Stop() int {
	s.t.Helper()
	_ = s.command.Process.Signal(syscall.SIGTERM)
	code := s.Wait()
	if stuck, err := os.ReadFile(filepath.Join(s.dir, "logs", "stuck.txt")); err == nil {
		s.t.Logf("the server did not stop by itself:\n%s", stuck)
	}
	return code
}

// Wait waits until the server has ended, and returns its exit code.
func (s *Server) Wait() int {
	<-s.ended
	return s.command.ProcessState.ExitCode()
}
