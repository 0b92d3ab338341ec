package terminal

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var rows = [][]string{
	{"CONSUMER", "RESOURCE TYPE", "USED", "UTILIZATION", "STATE"},
	{"Project/web", "compute.example.com/vcpus", "24 vCPU", "75%", "Granted"},
	{"Project/a-project-with-a-long-name", "compute.example.com/memory", "1 GiB", "nothing granted", "Denied"},
	{"Project/none", "compute.example.com/gpus", "0", "", "Other"},
}

func TestTable(t *testing.T) {
	for name, tt := range map[string]struct {
		reason string
		style  Style
		want   string
	}{
		"Plain": {"nothing is cut where there is no terminal", Style{}, `
CONSUMER                             RESOURCE TYPE                USED      UTILIZATION       STATE
Project/web                          compute.example.com/vcpus    24 vCPU   75%               Granted
Project/a-project-with-a-long-name   compute.example.com/memory   1 GiB     nothing granted   Denied
Project/none                         compute.example.com/gpus     0                           Other
`},
		"Narrow": {"the widest columns are cut, paths at their beginning", Style{Width: 70}, `
CONSUMER          RESOURCE TYPE      USED     UTILIZATION      STATE
Project/web       …xample.com/vcpus  24 vCPU  75%              Granted
…ith-a-long-name  …ample.com/memory  1 GiB    nothing granted  Denied
Project/none      …example.com/gpus  0                         Other
`},
		"ASCII": {"and without other characters", Style{Width: 70, IsASCII: true}, ""},
		"Tiny":  {"what cannot fit is not cut", Style{Width: 20}, ""},
		"Bars": {"a bar for each percentage", Style{Width: 200, HasBars: true}, `
CONSUMER                             RESOURCE TYPE                USED      UTILIZATION                  STATE
Project/web                          compute.example.com/vcpus    24 vCPU   75%             ███████░░░   Granted
Project/a-project-with-a-long-name   compute.example.com/memory   1 GiB     nothing granted              Denied
Project/none                         compute.example.com/gpus     0                                      Other
`},
		"Colors": {"colours by what they mean", Style{Width: 200, HasColor: true}, `
CONSUMER                             RESOURCE TYPE                USED      UTILIZATION       STATE
Project/web                          compute.example.com/vcpus    24 vCPU   ESC[32m75%ESC[0m               ESC[32mGrantedESC[0m
Project/a-project-with-a-long-name   compute.example.com/memory   1 GiB     ESC[31mnothing grantedESC[0m   ESC[31mDeniedESC[0m
Project/none                         compute.example.com/gpus     0                           Other
`},
	} {
		t.Run(name, func(t *testing.T) {
			got := "\n" + strings.ReplaceAll(tt.style.Table(rows), "\x1b", "ESC")
			for line := range strings.Lines(got) {
				if name == "Narrow" && utf8.RuneCountInString(line) > tt.style.Width+1 {
					t.Errorf("%s: %q does not fit %d columns", tt.reason, line, tt.style.Width)
				}
			}
			switch name {
			case "ASCII":
				if strings.ContainsFunc(got, func(r rune) bool { return r >= utf8.RuneSelf }) {
					t.Errorf("%s: %s", tt.reason, got)
				}
			case "Tiny":
				if plain := "\n" + (Style{}).Table(rows); got != plain {
					t.Errorf("%s: %s", tt.reason, got)
				}
			default:
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
				}
			}
		})
	}
}

func TestBar(t *testing.T) {
	for percent, want := range map[float64]string{0: "..........", 0.5: "#.........", 55: "#####.....", 100: "##########", 250: "##########"} {
		if got := (Style{IsASCII: true}).Bar(percent); got != want {
			t.Errorf("%v %%: got %q, want %q", percent, got, want)
		}
	}
}

// TestCut checks that the most useful part of a cell stays.
func TestCut(t *testing.T) {
	for name, tt := range map[string]struct{ reason, cell, want string }{
		"Path":     {"the end of a path", "compute.example.com/vcpus", "…com/vcpus"},
		"Branch":   {"the branch of a tree stays", "└─ compute.example.com/vcpus", "└─ …/vcpus"},
		"Sentence": {"the beginning of a sentence", "waits for a decision", "waits for…"},
		"Short":    {"what fits", "a/b", "a/b"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (Style{}).cut(tt.cell, 10); got != tt.want {
				t.Errorf("%s: got %q, want %q", tt.reason, got, tt.want)
			}
		})
	}
}

// TestPlain checks outputs other than a terminal: they get no colours and no cut tables.
func TestPlain(t *testing.T) {
	t.Setenv("LANG", "C.UTF-8")
	if got := Of(&bytes.Buffer{}); got.IsTerminal() || got.HasColor || got.HasBars {
		t.Errorf("a buffer has the style %+v", got)
	}
	var out bytes.Buffer
	StartProgress(&out, "working")()
	if out.Len() > 0 {
		t.Errorf("progress is reported where there is no terminal: %q", out.String())
	}
}

// line collects the text of single writes.
type line struct {
	sync.Mutex
	text    strings.Builder
	written chan struct{}
}

func (l *line) Write(text []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	select {
	case l.written <- struct{}{}:
	default:
	}
	return l.text.Write(text)
}

// TestProgress follows the line about a long task: it appears, and disappears in the end.
func TestProgress(t *testing.T) {
	out := &line{written: make(chan struct{}, 1)}
	stop := startProgress(out, "reading", time.Millisecond)
	<-out.written
	stop()
	stop()
	if got := out.text.String(); !strings.HasPrefix(got, "\r\x1b[Kreading ... 0 s") || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("the line is %q", got)
	}
}

// A description identifies nothing: it is cut first, and other columns only if that is not enough.
func TestTableWithDescription(t *testing.T) {
	described := [][]string{{"NAME", "DESCRIPTION"}, {"vcpus-of-all-machines", "CPU of all machines in every region"}}
	for width, want := range map[int]string{
		40: "NAME                   DESCRIPTION\nvcpus-of-all-machines  CPU of all machi…\n",
		30: "NAME                DESCRIPTI…\nvcpus-of-all-mach…  CPU of al…\n",
	} {
		if got := (Style{Width: width}).Table(described); got != want {
			t.Errorf("in %d columns: got\n%swant\n%s", width, got, want)
		}
	}
}

// Users write some of the texts that a page shows.
func TestPageIsClean(t *testing.T) {
	page := &Page{}
	if _, err := page.Write([]byte("reason: \u202e001\x1b[2J\n")); err != nil {
		t.Fatal(err)
	}
	if want := "reason: 001[2J\n"; page.String() != want {
		t.Errorf("got %q, want %q", page.String(), want)
	}
}
