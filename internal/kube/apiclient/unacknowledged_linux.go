package apiclient

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// boundUnacknowledged makes the kernel end a connection without acknowledgments for a time, instead of retransmitting
// for a quarter of an hour.
func boundUnacknowledged(timeout time.Duration) func(network, address string, connection syscall.RawConn) error {
	return func(_, _ string, connection syscall.RawConn) error {
		var failed error
		err := connection.Control(func(fd uintptr) {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(timeout.Milliseconds()))
		})
		if err := errors.Join(err, failed); err != nil {
			return fmt.Errorf("set the timeout of a silent connection: %w", err)
		}
		return nil
	}
}
