package terminal

import (
	"fmt"
	"io"
)

// Lines prints a report until a write fails.
type Lines struct {
	Out io.Writer
	// Err is the error of the failed write, or nil.
	Err error
}

// Line prints a line, as [fmt.Printf] does.
func (l *Lines) Line(format string, args ...any) {
	if l.Err == nil {
		_, l.Err = fmt.Fprintf(l.Out, format+"\n", args...)
	}
}
