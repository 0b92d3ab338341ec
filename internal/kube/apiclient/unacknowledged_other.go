//go:build !linux

package apiclient

import (
	"syscall"
	"time"
)

// boundUnacknowledged does nothing on kernels without such a bound: keep-alive probes and deadlines remain.
func boundUnacknowledged(time.Duration) func(network, address string, connection syscall.RawConn) error {
	return nil
}
