// Package tidy checks the form of the code in fast tests: the size of functions and files, fields that hide the called
// function, and the allowed imports. `make lint` runs slower checks.
package tidy
