package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// RetentionMin is the shortest retention: other replicas may still write to younger files.
	RetentionMin = abandonedAfter
	// abandonedAfter is the time after its last change at which a file no longer has a writer. It is far more than
	// idleMax, because clocks differ.
	abandonedAfter = 24 * time.Hour
	// tendInterval is the time between two looks at the finished files, if the sink finishes no file in between.
	tendInterval = time.Hour
)

// keeper compresses and deletes finished files, in a goroutine of its own.
type keeper struct {
	sink   *Sink
	wake   chan struct{}
	cancel context.CancelFunc
	done   chan struct{}
}

func (k *keeper) start() {
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	k.tend()
	go func() {
		defer close(k.done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-k.wake:
				if err := k.run(ctx); err != nil && ctx.Err() == nil {
					k.sink.o.Log.Error(err, "The journal cannot compress or delete all of its finished files and tries again within the hour")
				}
			}
		}
	}()
}

func (k *keeper) tend() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *keeper) stop() {
	k.cancel()
	<-k.done
}

// stored is a file of the journal in the directory.
type stored struct {
	name
	isCompressed bool
	path         string
	size         int64
	changed      time.Time
}

// list returns the files in a directory in the order of their names. It has a file once, compressed, even if the
// directory has it twice, before and after compression.
func list(dir string) ([]stored, error) {
	items, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	return look(dir, items)
}

// HasFiles reports whether a directory has files of a journal.
func HasFiles(dir string) (bool, error) {
	found, err := list(dir)
	return len(found) > 0, err
}

// look returns the files in a listing of a directory. The directory may have changed since.
func look(dir string, items []fs.DirEntry) ([]stored, error) {
	var found []stored
	for _, item := range items {
		n, isCompressed, ok := parseName(item.Name())
		if !ok || item.IsDir() {
			continue
		}
		file := stored{name: n, isCompressed: isCompressed, path: filepath.Join(dir, item.Name())}
		info, err := item.Info()
		if errors.Is(err, fs.ErrNotExist) && !isCompressed { // it was compressed since, or deleted
			file.isCompressed, file.path = true, file.path+".gz"
			info, err = os.Lstat(file.path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		file.size, file.changed = info.Size(), info.ModTime()
		if last := len(found) - 1; last >= 0 && found[last].name == n { // .jsonl sorts before .jsonl.gz
			found[last] = file
			continue
		}
		found = append(found, file)
	}
	return found, nil
}

// files returns the files, and reports which of them no longer have a writer.
func (k *keeper) files() (all []stored, isFinished []bool, err error) {
	k.sink.mu.Lock()
	defer k.sink.mu.Unlock() // the sink may create no file between the two looks
	all, err = list(k.sink.o.Dir)
	current, now := k.sink.open(), k.sink.now()
	for i := range all {
		own := all[i].replica == k.sink.o.Replica && all[i].String() != current
		isFinished = append(isFinished, own || all[i].isCompressed || now.Sub(all[i].changed) > abandonedAfter && all[i].String() != current)
	}
	return all, isFinished, err
}

// run compresses and deletes.
func (k *keeper) run(ctx context.Context) error {
	all, isFinished, err := k.files()
	if err != nil {
		return err
	}
	var errs []error
	now, total := k.sink.now(), int64(0)
	for i := range all {
		file := &all[i]
		switch {
		case !isFinished[i]:
		case now.Sub(file.changed) > k.sink.o.Retention:
			errs = append(errs, remove(file))
			file.size = 0
		case !file.isCompressed:
			errs = append(errs, compress(ctx, file, k.sink.o.Replica))
		default:
			errs = append(errs, removeOriginal(file)) // a crash came before
		}
		total += file.size
	}
	for i := range all {
		if total <= k.sink.o.BytesMax {
			break
		}
		if isFinished[i] && all[i].size > 0 {
			k.sink.o.Log.Info("The journal deletes its oldest file early, because all files are larger than their limit together",
				"file", all[i].path, "lastEntry", all[i].changed, "bytesMax", k.sink.o.BytesMax)
			k.sink.early.Inc()
			errs = append(errs, remove(&all[i]))
			total -= all[i].size
		}
	}
	return errors.Join(append(errs, k.removeTemporary())...)
}

// remove deletes a file in both forms.
func remove(file *stored) error {
	base := strings.TrimSuffix(file.path, ".gz")
	return errors.Join(removeIfExists(base), removeIfExists(base+".gz"))
}

// removeOriginal deletes the original of a compressed file.
func removeOriginal(file *stored) error {
	original := strings.TrimSuffix(file.path, ".gz")
	if _, err := os.Lstat(original); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := syncDir(filepath.Dir(original)); err != nil {
		return err
	}
	return removeIfExists(original)
}

func removeIfExists(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// removeTemporary deletes the remains of compressed files after crashes. This replica compresses in one goroutine,
// this one.
func (k *keeper) removeTemporary() error {
	items, err := os.ReadDir(k.sink.o.Dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, item := range items {
		if !strings.HasPrefix(item.Name(), ".") || !strings.HasSuffix(item.Name(), temporary) {
			continue
		}
		info, err := item.Info()
		if err != nil {
			continue
		}
		if strings.HasSuffix(item.Name(), temporarySuffix(k.sink.o.Replica)) || k.sink.now().Sub(info.ModTime()) > abandonedAfter {
			errs = append(errs, removeIfExists(filepath.Join(k.sink.o.Dir, item.Name())))
		}
	}
	return errors.Join(errs...)
}

// repair cuts torn last lines off the files of this replica.
func (k *keeper) repair() error {
	all, err := list(k.sink.o.Dir)
	if err != nil {
		return err
	}
	for _, file := range slices.DeleteFunc(all, func(f stored) bool { return f.isCompressed || f.replica != k.sink.o.Replica }) {
		if err := cut(file.path); err != nil {
			return fmt.Errorf("cut the torn last line off %s: %w", file.path, err)
		}
		if file.began.After(k.sink.began) {
			k.sink.began = file.began
		}
	}
	return nil
}
