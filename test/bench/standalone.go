package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// server is the standalone process that is measured.
type server struct {
	command *exec.Cmd
	dir     string
	// config reaches the server as its administrator.
	config *rest.Config
}

// startServer starts a server on a directory of its own and waits until it says that it is ready.
func startServer(ctx context.Context, binary string) (*server, error) {
	dir, err := os.MkdirTemp("", "bursar-bench-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir}
	return s, s.start(ctx, binary)
}

func (s *server) start(ctx context.Context, binary string) error {
	s.command = exec.CommandContext(ctx, binary, "standalone", "--data-dir", s.dir, "--listen", "127.0.0.1:0")
	s.command.Cancel = func() error { return s.command.Process.Signal(syscall.SIGTERM) }
	s.command.Stderr = os.Stderr
	output, err := s.command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.command.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "ready") {
			go func() {
				for lines.Scan() {
				}
			}()
			s.config, err = clientcmd.BuildConfigFromFlags("", filepath.Join(s.dir, "admin.kubeconfig"))
			return err
		}
	}
	return fmt.Errorf("the server ended before it was ready: %w", s.command.Wait())
}

// stop ends the server and removes its directory.
func (s *server) stop() {
	s.end()
	_ = os.RemoveAll(s.dir)
}

func (s *server) end() {
	if s.command != nil && s.command.Process != nil {
		_ = s.command.Process.Signal(syscall.SIGTERM)
		_ = s.command.Wait()
	}
}

// restart ends the server, starts it again on the same directory, and returns how long that took
// from the start until it was ready.
func (s *server) restart(ctx context.Context, binary string) (time.Duration, error) {
	s.end()
	begin := time.Now()
	err := s.start(ctx, binary)
	return time.Since(begin), err
}

// client returns the configuration of a client with a connection of its own.
func (s *server) client() *rest.Config {
	config := rest.CopyConfig(s.config)
	config.QPS = -1
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, address)
	}
	return config
}

// cpu is the processor time that the server has used.
func (s *server) cpu() time.Duration {
	fields := s.procFields("stat")
	if len(fields) < 15 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[13], 10, 64)
	system, _ := strconv.ParseInt(fields[14], 10, 64)
	const ticksPerSecond = 100
	return time.Duration(user+system) * time.Second / ticksPerSecond
}

// memory is the server's resident memory in MiB.
func (s *server) memory() int64 {
	fields := s.procFields("statm")
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()) >> 20
}

func (s *server) procFields(file string) []string {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", s.command.Process.Pid, file))
	if err != nil {
		return nil
	}
	return strings.Fields(string(content))
}
