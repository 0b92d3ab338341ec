package fence

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lease is a lock of this replica. Its writes fail with err, or take a while.
type lease struct {
	resourcelock.Interface
	err   error
	takes time.Duration
}

func (*lease) Identity() string { return "us" }

func (l *lease) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	time.Sleep(l.takes)
	return l.err
}

func TestLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lease{}
		lock := Around(store, 10*time.Second)
		check := func(reason string, want error) {
			t.Helper()
			if err := lock.Check(); !errors.Is(err, want) {
				t.Errorf("%s: got %v, want %v", reason, err, want)
			}
		}
		renew := func(holder string) error {
			return lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: holder})
		}
		check("this replica was never elected", ErrLost)

		store.takes = 4 * time.Second
		if err := renew("us"); err != nil {
			t.Fatal(err)
		}
		store.takes = 0
		check("the lead is new", nil)

		time.Sleep(6*time.Second - 1)
		check("the lead lasts from the beginning of its renewal", nil)
		time.Sleep(time.Nanosecond)
		check("the leader paused", ErrLost)

		store.err = errors.New("no API server")
		if err := renew("us"); !errors.Is(err, store.err) {
			t.Errorf("got %v, want the error of the API server", err)
		}
		check("a failed renewal is none", ErrLost)

		store.err = nil
		if err := renew("us"); err != nil {
			t.Fatal(err)
		}
		check("the lead is renewed", nil)
		if err := renew(""); err != nil {
			t.Fatal(err)
		}
		check("the lead is released", ErrLost)
	})
	if err := (*Lock)(nil).Check(); err != nil {
		t.Errorf("got %v for a replica without others", err)
	}
}
