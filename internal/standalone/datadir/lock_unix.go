//go:build unix

package datadir

import (
	"os"

	"golang.org/x/sys/unix"
)

// How tryLock locks: the server exclusively, and a client asking whether it runs shared.
const (
	exclusive = unix.LOCK_EX
	shared    = unix.LOCK_SH
)

// errHeld is the error for a file locked by another process.
const errHeld = unix.EWOULDBLOCK

// tryLock locks a file until it is closed, without waiting.
func tryLock(file *os.File, how int) error { return unix.Flock(int(file.Fd()), how|unix.LOCK_NB) }
