// Package tidy has the rules on the form of the code, as tests that take a second: the size of functions and files, fields
// that hide which function is called, and which package may import which. `make lint` runs what takes longer.
package tidy
