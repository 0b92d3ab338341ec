package journal

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
)

// damagedMax bounds the damaged lines that a Damage remembers. A file of rubbish may have millions.
const damagedMax = 10_000

// Damage collects the lines of a journal that nobody can read, so that a reader can skip them and report them. The zero
// value is ready to use, by several goroutines at once. A nil Damage collects nothing.
type Damage struct {
	mu    sync.Mutex
	files map[string]*damagedFile
	count int
}

// damagedFile is a file with damaged lines, by number.
type damagedFile struct {
	name  string
	lines map[int]error
}

// fileKey returns the same key for a file before and after its compression.
func fileKey(name string) string { return strings.TrimSuffix(name, ".gz") }

// Begin notes that a reader starts a file. One that starts it again may find it repaired, so Begin forgets the file's
// damage.
func (d *Damage) Begin(file string) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.files[fileKey(file)]; known != nil {
		d.count -= len(known.lines)
		delete(d.files, fileKey(file))
	}
}

// Add records that a line cannot be read. It reports whether the reader may skip the line: without a Damage, nobody
// would learn that it is missing.
func (d *Damage) Add(file string, line int, err error) (skip bool) {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.files[fileKey(file)]
	if known == nil {
		known = &damagedFile{name: file, lines: map[int]error{}}
		if d.files == nil {
			d.files = map[string]*damagedFile{}
		}
		d.files[fileKey(file)] = known
	}
	if _, isKnown := known.lines[line]; !isKnown && d.count < damagedMax {
		known.lines[line] = err
		d.count++
	}
	return true
}

// Count returns the number of damaged lines, at most 10,000.
func (d *Damage) Count() int {
	if d == nil {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count
}

// Example names the first damaged line of a file, with the reason, or returns "" without damage.
func (d *Damage) Example() string {
	if d == nil {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var first *damagedFile
	for _, file := range d.files {
		if len(file.lines) > 0 && (first == nil || file.name < first.name) {
			first = file
		}
	}
	if first == nil {
		return ""
	}
	line := 0
	for number := range first.lines {
		if line == 0 || number < line {
			line = number
		}
	}
	return fmt.Sprintf("%s: line %d: %v", first.name, line, first.lines[line])
}

// Tolerant is a source that skips damaged lines, and collects them.
type Tolerant struct {
	Source
	Damage *Damage
}

// Entries implements [Source].
func (t Tolerant) Entries(ctx context.Context, query Query) iter.Seq2[Entry, error] {
	query.Damage = t.Damage
	return t.Source.Entries(ctx, query)
}
