package review

import (
	"context"
	"errors"
	"io"

	"golang.org/x/sync/semaphore"
)

// inMemory holds the bytes of the bodies of open reviews.
var inMemory = semaphore.NewWeighted(inMemoryMax)

var errMemory = errors.New("the reviews in progress use all the memory for reviews; try again")

// memory is the part of inMemory that one review holds. It grows with the arriving body, and not with the announced
// one, so a caller that sends slowly takes nothing from others.
type memory struct{ bytes int64 }

// readAll reads a body with an announced length, or -1. It returns errMemory if ctx ends before there is memory for it.
func (m *memory) readAll(ctx context.Context, body io.Reader, length int64) ([]byte, error) {
	var content []byte
	for size := firstBytesOf(length); ; size *= 2 {
		if err := m.grow(ctx, size); err != nil {
			return nil, err
		}
		content = append(make([]byte, 0, size), content...)
		n, err := io.ReadFull(body, content[len(content):size])
		content = content[:len(content)+n]
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return content, nil
		case err != nil:
			return nil, err
		}
	}
}

// firstBytesOf returns the first capacity for a body. One byte more than the body shows that it has ended.
func firstBytesOf(length int64) int64 {
	if length < 0 {
		return firstBytes
	}
	return min(firstBytes, length+1)
}

// grow has the review hold at least so many bytes.
func (m *memory) grow(ctx context.Context, bytes int64) error {
	more := bytes - m.bytes
	if inMemory.Acquire(ctx, more) != nil {
		return errMemory
	}
	m.bytes += more
	return nil
}

func (m *memory) release() { inMemory.Release(m.bytes) }
