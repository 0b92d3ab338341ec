package journal_test

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/journal"
)

// samples has entries with different sets of fields.
func samples() []journal.Entry {
	at := time.Date(2026, 11, 26, 14, 30, 1, 123000000, time.UTC)
	full := journal.Entry{
		Consumer: web, Sequence: 7, Time: at, Kind: journal.Admitted, ResourceType: "compute.example.com/cpus", Dimensions: map[string]string{"zone": "a", "class": "fast"},
		Change: 3, Used: 5, Limit: 10, Object: &journal.Object{APIGroup: "apps", Kind: "Pod", Namespace: "web", Name: "pod-1", UID: "u"},
		Claim: "bursar-system/claim", Policy: "pods", Grant: "a/b", Actor: "ann@example.com",
	}
	all := []journal.Entry{full, {Consumer: web, Kind: journal.Recounted, Change: math.MinInt64, Used: math.MaxInt64}, opened(9, 1, 2)}
	for _, change := range []func(*journal.Entry){
		func(e *journal.Entry) { e.Dimensions = nil },
		func(e *journal.Entry) { e.Consumer.APIGroup = "" },
		func(e *journal.Entry) { e.Consumer.Namespace = "team" },
		func(e *journal.Entry) { e.Object = &journal.Object{} },
		func(e *journal.Entry) { e.Object = &journal.Object{Name: "only"} },
		func(e *journal.Entry) { e.Actor = `ann "a" <b> } \ Bäcker` },
		func(e *journal.Entry) { e.Dimensions = map[string]string{"zone": "}"} },
		func(e *journal.Entry) { e.Consumer.Name = "}" },
		func(e *journal.Entry) { e.Time = at.Truncate(time.Second) },
	} {
		e := full
		change(&e)
		all = append(all, e)
	}
	return all
}

func TestDecoder(t *testing.T) {
	var decoder journal.Decoder
	for range 2 { // the second time from its tables
		for _, want := range samples() {
			line, err := want.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			var got journal.Entry
			if err := decoder.Decode(line, &got); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s is decoded differently (-want +got):\n%s", line, diff)
			}
		}
	}
}

// FuzzDecoder holds the decoder to UnmarshalJSON.
func FuzzDecoder(f *testing.F) {
	for _, e := range samples() {
		line, err := e.MarshalJSON()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var want, first, second journal.Entry
		var decoder journal.Decoder
		wantErr := json.Unmarshal(line, &want)
		firstErr, secondErr := decoder.Decode(line, &first), decoder.Decode(line, &second)
		if (wantErr == nil) != (firstErr == nil) || (wantErr == nil) != (secondErr == nil) {
			t.Fatalf("got %v and %v, want %v", firstErr, secondErr, wantErr)
		}
		if wantErr == nil && (!reflect.DeepEqual(want, first) || !reflect.DeepEqual(want, second)) {
			t.Fatalf("got %+v and %+v, want %+v", first, second, want)
		}
	})
}

func BenchmarkDecoder(b *testing.B) {
	line, err := new(samples()[0]).MarshalJSON()
	if err != nil {
		b.Fatal(err)
	}
	var decoder journal.Decoder
	var e journal.Entry
	for b.Loop() {
		if err := decoder.Decode(line, &e); err != nil {
			b.Fatal(err)
		}
	}
}
