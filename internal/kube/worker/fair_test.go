package worker

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Of many items of one group and few of others, each group has its turn.
func TestFairQueue(t *testing.T) {
	queue := NewFairQueue(func(item string) string { return item[:1] }, time.Millisecond, time.Second)
	for item := range strings.FieldsSeq("a1 a2 a3 a4 b1 b2 a5 c1 a1") {
		queue.Add(item)
	}
	if queue.Len() != 8 {
		t.Errorf("it holds %d items, want 8, each once", queue.Len())
	}
	var got []string
	for queue.Len() > 0 {
		item, _ := queue.Get()
		got = append(got, item)
		queue.Done(item)
	}
	if diff := cmp.Diff(strings.Fields("a1 b1 c1 a2 b2 a3 a4 a5"), got); diff != "" {
		t.Error(diff)
	}
}
