package review

import (
	"context"
	"errors"
	"io"

	"golang.org/x/sync/semaphore"
)

// The bodies of open reviews are in memory. Small ones, which most are, have memory of their own, so that no number of
// large ones stops them.
var (
	smallBodies = semaphore.NewWeighted(smallBodiesMax)
	largeBodies = semaphore.NewWeighted(largeBodiesMax)
)

var errMemory = errors.New("the reviews in progress use all the memory for reviews; try again")

// memory is the part of the memory for bodies that one review holds.
type memory struct {
	pool  *semaphore.Weighted
	bytes int64
}

// readAll reads a body with an announced length, or -1. It returns errMemory if ctx ends before there is memory for it.
//
// A review takes all its memory in one step. If it took some and then waited for more, many reviews could hold all
// memory, and each would wait for the others until the API server gives up. A large body has to begin before it gets
// memory, so an announcement alone takes nothing from others.
func (m *memory) readAll(ctx context.Context, body io.Reader, length int64) ([]byte, error) {
	if length < 0 || length > bytesMax {
		length = bytesMax
	}
	pool := smallBodies
	var begin []byte
	if length > smallMax {
		pool = largeBodies
		begin = make([]byte, beginBytes)
		n, err := io.ReadFull(body, begin)
		if begin = begin[:n]; err != nil {
			return begin, unlessEnded(err)
		}
	}

	// With one byte more than the body, the read sees its end.
	if err := m.acquire(ctx, pool, length+1); err != nil {
		return nil, err
	}
	content := append(make([]byte, 0, m.bytes), begin...)
	n, err := io.ReadFull(body, content[len(begin):m.bytes])
	return content[:len(begin)+n], unlessEnded(err)
}

// unlessEnded returns an error of a read, unless it is the end of the body.
func unlessEnded(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// acquire takes the memory of a review. Call it once.
func (m *memory) acquire(ctx context.Context, pool *semaphore.Weighted, bytes int64) error {
	if pool.Acquire(ctx, bytes) != nil {
		return errMemory
	}
	m.pool, m.bytes = pool, bytes
	return nil
}

// release returns the memory of a review, if it has some.
func (m *memory) release() {
	if m.pool != nil {
		m.pool.Release(m.bytes)
	}
}
