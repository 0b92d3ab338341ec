package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A replica is ready once every stored webhook has the authority of its certificate.
func TestPublished(t *testing.T) {
	served, err := newSelfSigned("localhost")
	if err != nil {
		t.Fatal(err)
	}
	other, err := newSelfSigned("localhost")
	if err != nil {
		t.Fatal(err)
	}
	both := append(append([]byte{}, other.Bundle()...), served.Bundle()...)
	for name, tt := range map[string]struct {
		reason  string
		bundles [][]byte
		want    bool
	}{
		"no webhooks":         {"nobody calls", nil, true},
		"another authority":   {"calls would fail", [][]byte{other.Bundle()}, false},
		"both":                {"one of them is enough", [][]byte{both}, true},
		"of one webhook only": {"calls of the other would fail", [][]byte{both, other.Bundle()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bundles := tt.bundles
				s := &Server{Certificates: served, dependencies: Dependencies{
					Published: publishedFunc(func(context.Context) ([][]byte, error) { return bundles, nil }),
				}}
				if got := s.IsPublished(t.Context()); got != tt.want {
					t.Errorf("%s: got %t, want %t", tt.reason, got, tt.want)
				}
				if bundles != nil {
					bundles = [][]byte{both}
				}
				time.Sleep(publishedInterval)
				if !s.IsPublished(t.Context()) {
					t.Error("the authority is published now")
				}
			})
		})
	}
}

// publishedFunc returns the published authorities.
type publishedFunc func(ctx context.Context) ([][]byte, error)

func (f publishedFunc) Authorities(ctx context.Context) ([][]byte, error) { return f(ctx) }
