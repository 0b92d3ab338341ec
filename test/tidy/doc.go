// Package tidy checks a rule on the form of the code unknown to linters: structs have no function-valued fields. The
// rules on imports, sizes and comments are in .golangci.yml.
package tidy
