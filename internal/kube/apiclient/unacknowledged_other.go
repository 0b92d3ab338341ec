//go:build !linux

package apiclient

import (
	"syscall"
	"time"
)

// boundUnacknowledged does nothing where the kernel has no such bound: keep-alive probes and deadlines remain.
func boundUnacknowledged(time.Duration) func(network, address string, connection syscall.RawConn) error {
	return nil
}
