package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// pid is a process under measurement.
type pid int

// cpu is the CPU time used by the process.
func (p pid) cpu() time.Duration {
	fields := p.fields("stat")
	if len(fields) < 15 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[13], 10, 64)
	system, _ := strconv.ParseInt(fields[14], 10, 64)
	const ticksPerSecond = 100
	return time.Duration(user+system) * time.Second / ticksPerSecond
}

// memory is its resident memory in MiB, now and at most so far.
func (p pid) memory() (now, peak int64) {
	fields := p.fields("status")
	for i, field := range fields[:max(0, len(fields)-1)] {
		kibibytes, _ := strconv.ParseInt(fields[i+1], 10, 64)
		switch field {
		case "VmRSS:":
			now = kibibytes >> 10
		case "VmHWM:":
			peak = kibibytes >> 10
		}
	}
	return now, peak
}

func (p pid) fields(file string) []string {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p, file))
	if err != nil {
		return nil
	}
	return strings.Fields(string(content))
}

// process is one process of the measured system.
type process struct {
	pid
	name string
	// metrics reads its metrics, in the text form of Prometheus.
	metrics func(context.Context) ([]byte, error)
}

// child is a process that prints a line with the word ready once it is.
type child struct {
	command *exec.Cmd
}

// startChild starts a process of a command with a context to end it, and waits until it reports that it is ready.
func startChild(command *exec.Cmd) (*child, error) {
	c := &child{command: command}
	c.command.Cancel = func() error { return c.command.Process.Signal(syscall.SIGTERM) }
	output, err := c.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.command.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "ready") {
			go func() {
				for lines.Scan() {
				}
			}()
			return c, nil
		}
	}
	return nil, fmt.Errorf("%s ended before it was ready: %w", strings.Join(command.Args[:2], " "), c.command.Wait())
}

func (c *child) pid() pid { return pid(c.command.Process.Pid) }

// end asks the process to end and waits until it has.
func (c *child) end() {
	if c != nil {
		_ = c.command.Process.Signal(syscall.SIGTERM)
		_ = c.command.Wait()
	}
}
