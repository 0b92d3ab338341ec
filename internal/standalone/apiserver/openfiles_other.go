//go:build !unix

package apiserver

// checkOpenFiles checks nothing: a standalone server needs a Unix.
func checkOpenFiles() error { return nil }
