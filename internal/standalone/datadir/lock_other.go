//go:build !unix

package datadir

import (
	"errors"
	"os"
)

// How tryLock would lock.
const (
	exclusive = iota
	shared
)

// errHeld is never returned: no server runs on this system.
var errHeld = errors.New("the file is locked")

// tryLock fails, because a standalone server needs a Unix. Clients find none.
func tryLock(*os.File, int) error { return errors.ErrUnsupported }
