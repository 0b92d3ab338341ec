package claimstest

import (
	"io"
	"net/http"
	"sync"
)

// direct passes requests to a handler without a network, so they take no time.
type direct struct{ http.Handler }

func (d direct) RoundTrip(request *http.Request) (*http.Response, error) {
	body, writer := io.Pipe()
	answer := &answer{PipeWriter: writer, header: http.Header{}, begun: make(chan struct{})}
	if request.Body == nil {
		request = request.Clone(request.Context())
		request.Body = http.NoBody
	}
	go func() {
		d.ServeHTTP(answer, request)
		answer.WriteHeader(http.StatusOK)
		_ = writer.Close()
	}()
	select {
	case <-answer.begun:
		return &http.Response{StatusCode: answer.code, Header: answer.header, Body: body, Request: request, ProtoMajor: 1, ProtoMinor: 1}, nil
	case <-request.Context().Done():
		_ = body.CloseWithError(request.Context().Err())
		return nil, request.Context().Err()
	}
}

// answer is the answer to one request, while the handler writes it.
type answer struct {
	*io.PipeWriter
	header http.Header
	once   sync.Once
	begun  chan struct{}
	code   int
}

func (a *answer) Header() http.Header { return a.header }
func (a *answer) Flush()              { a.WriteHeader(http.StatusOK) }

func (a *answer) WriteHeader(code int) {
	a.once.Do(func() {
		a.code = code
		close(a.begun)
	})
}

func (a *answer) Write(data []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.PipeWriter.Write(data)
}
