//go:build unix

package apiserver

import (
	"fmt"
	"syscall"
)

// openFilesMin is how many files a server opens at least: etcd, the API server and their connections need some 200 from
// the start. Clients take further ones.
const openFilesMin = 256

// checkOpenFiles returns an error if the process may not open enough files. Without it, etcd ends without a reason.
func checkOpenFiles() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return nil //nolint:nilerr // without an answer, the start shows whether it suffices
	}
	return openFilesProblem(uint64(limit.Cur)) //nolint:unconvert // the type differs between systems
}

func openFilesProblem(most uint64) error {
	if most >= openFilesMin {
		return nil
	}
	return fmt.Errorf("the server may open %d files, and needs at least %d: raise the limit with ulimit -n %d, or LimitNOFILE= in a unit of systemd", most, openFilesMin, 4*openFilesMin)
}
