package main

import (
	"context"
	"os"
	"os/exec"
	"time"
)

// standalone is a standalone server, on a directory of its own.
type standalone struct {
	binary, dir, admission, journal string
	server                          *child
}

func startStandalone(ctx context.Context, binary, admission, journal string) (*standalone, error) {
	dir, err := os.MkdirTemp("", "bursar-bench-")
	if err != nil {
		return nil, err
	}
	s := &standalone{binary: binary, dir: dir, admission: admission, journal: journal}
	if err := s.start(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *standalone) start(ctx context.Context) (err error) {
	command := exec.CommandContext(ctx, s.binary, "standalone", "--data-dir", s.dir, "--listen", "127.0.0.1:0", "--admission", s.admission, "--journal", s.journal)
	command.Stderr = os.Stderr
	s.server, err = startChild(command)
	return err
}

func (s *standalone) directory() string { return s.dir }

func (s *standalone) processes() []process {
	return []process{{s.server.pid(), "server", s.metrics}}
}

func (s *standalone) metrics(ctx context.Context) ([]byte, error) {
	return apiServerMetrics(ctx, s.dir)
}

func (s *standalone) restart(ctx context.Context) (time.Duration, error) {
	s.server.end()
	begin := time.Now()
	err := s.start(ctx)
	return time.Since(begin), err
}

func (s *standalone) withoutQuota(ctx context.Context, do func() error) error {
	s.server.end()
	plain, err := startAPIServer(ctx, s.dir)
	if err != nil {
		return err
	}
	err = do()
	plain.end()
	if err != nil {
		return err
	}
	return s.start(ctx)
}

func (s *standalone) stop() {
	s.server.end()
	_ = os.RemoveAll(s.dir)
}
