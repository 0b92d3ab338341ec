package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal opens a terminal with so many columns. It returns its end for a program, and a function to close it and
// get the program's output.
func openTerminal(t *testing.T, columns uint16) (program *os.File, printed func() string) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	must(t, unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	must(t, err)
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	must(t, unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: columns}))
	var text bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&text, screen) // it ends with an error once the program has closed the terminal
	}()
	return program, func() string {
		must(t, program.Close())
		<-read
		must(t, screen.Close())
		return string(bytes.ReplaceAll(text.Bytes(), []byte("\r\n"), []byte("\n")))
	}
}
