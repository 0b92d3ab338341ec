package files

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

const (
	// timeFormat has a fixed width, so names sort by time.
	timeFormat = "20060102T150405.000000000Z"
	// plain and compressed end the names of files.
	plain      = ".jsonl"
	compressed = plain + ".gz"
	// temporary ends the names of files during their compression. They begin with a dot.
	temporary = ".tmp"
)

// replicaPattern matches the valid names of replicas.
var replicaPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$`)

// name identifies a file, compressed or not.
type name struct {
	began   time.Time
	replica string
}

func (n name) String() string { return n.began.UTC().Format(timeFormat) + "-" + n.replica }

// parseName returns the name of a file of the journal, without its ending.
func parseName(file string) (n name, isCompressed, ok bool) {
	base, isCompressed := strings.CutSuffix(file, compressed)
	if !isCompressed {
		if base, ok = strings.CutSuffix(file, plain); !ok {
			return name{}, false, false
		}
	}
	if len(base) < len(timeFormat)+2 || base[len(timeFormat)] != '-' {
		return name{}, false, false
	}
	began, err := time.Parse(timeFormat, base[:len(timeFormat)])
	if err != nil {
		return name{}, false, false
	}
	return name{began: began, replica: base[len(timeFormat)+1:]}, isCompressed, true
}

func checkReplica(replica string) error {
	if !replicaPattern.MatchString(replica) {
		return fmt.Errorf("%q cannot be the name of a replica in the names of files: use up to 128 letters, digits, '-', '_' and '.'", replica)
	}
	return nil
}
