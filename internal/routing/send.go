package routing

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	// forwardedHeader marks a forwarded review, so nobody forwards it again.
	forwardedHeader = "Bursar-Forwarded"
	// decisionTime is kept back from the time for a review: if the preferred replica does not answer, this one
	// decides.
	decisionTime = 1200 * time.Millisecond
	// aliveTimeout is the time without an answer before the preferred replica gets a health check, and the timeout of
	// the check.
	aliveTimeout = 400 * time.Millisecond
	// answerMax bounds the size of an answer, in bytes.
	answerMax = 1 << 20
)

// sender is the HTTP client of the replicas.
type sender struct {
	client *http.Client
	paths  PeerPaths // or nil
}

func newSender(serverName string, certificates Certificates, gate PeerPaths) *sender {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(certificates.Bundle())
		dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: aliveTimeout}, Config: &tls.Config{
			RootCAs: pool, ServerName: serverName, MinVersion: tls.VersionTLS12,
			GetClientCertificate: func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return ownCertificate(certificates, asked)
			},
		}}
		return dialer.DialContext(ctx, network, address)
	}
	return &sender{&http.Client{Transport: &http.Transport{
		DialTLSContext: dial, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute,
	}}, gate}
}

// ownCertificate returns the certificate of this replica if the other one wants it. A listener for API servers wants
// theirs.
func ownCertificate(certificates Certificates, asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	own, err := certificates.GetCertificate(nil)
	if err != nil {
		return nil, err
	}
	if asked.SupportsCertificate(own) != nil {
		return &tls.Certificate{}, nil
	}
	return own, nil
}

// path returns a path of another replica as the gate requires it.
func (s *sender) path(path string) string {
	if s.paths == nil {
		return path
	}
	return s.paths.PeerPath(path)
}

// IsForwarded reports whether another replica sent a request.
func IsForwarded(r *http.Request) bool { return r.Header.Get(forwardedHeader) != "" }

// Forward sends a review to the preferred replica of a consumer, and returns its answer. It returns false if this
// replica has to decide: it is the preferred one, or the preferred one does not answer.
func (p *Peers) Forward(ctx context.Context, consumer quotav1alpha1.ConsumerRef, path string, review []byte) ([]byte, bool) {
	if p == nil {
		return nil, false
	}
	preferred := p.preferred(consumer)
	if preferred == nil {
		return nil, false
	}
	timeout := aliveTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = time.Until(deadline) - decisionTime
	}
	if timeout <= 0 {
		return nil, false
	}
	asking, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answer, err := p.sender.sendWatched(asking, preferred.address, path, timeout, review)
	if ctx.Err() != nil {
		return nil, false // the client has gone
	}
	p.recordAnswer(preferred, err == nil)
	if err != nil {
		p.Log.V(1).Info("another replica did not answer, and this one will not ask it for a while", "address", preferred.address, "err", err.Error())
		return nil, false
	}
	return answer, true
}

// sendWatched sends a review, and cancels it as soon as the receiver fails a health check.
func (s *sender) sendWatched(ctx context.Context, address, path string, timeout time.Duration, review []byte) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	defer close(done)
	go func() {
		ticker := time.NewTicker(aliveTimeout)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
			}
			if _, err := s.query(ctx, address, AlivePath); err != nil {
				cancel(errors.Join(errors.New("it does not respond"), err))
				return
			}
		}
	}()
	answer, err := s.send(ctx, address, path, timeout, review)
	if err != nil && context.Cause(ctx) != nil {
		err = context.Cause(ctx)
	}
	return answer, err
}

func (s *sender) send(ctx context.Context, address, path string, timeout time.Duration, review []byte) ([]byte, error) {
	at := url.URL{Scheme: "https", Host: address, Path: s.path(path), RawQuery: url.Values{"timeout": {timeout.String()}}.Encode()}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), bytes.NewReader(review))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(forwardedHeader, "true")
	request.Header["X-Idempotency-Key"] = nil // it may be sent again after a connection was just closed
	_, answer, err := s.do(request, http.StatusOK)
	return answer, err
}

// AskAll sends a question to the other live replicas, one after the other, and returns their answers. It leaves out
// replicas without an answer.
func (p *Peers) AskAll(ctx context.Context, path string, question []byte) (answers [][]byte) {
	for _, other := range p.alive() {
		asking, cancel := context.WithTimeout(ctx, aliveTimeout)
		answer, err := p.sender.send(asking, other.address, path, aliveTimeout, question)
		cancel()
		if err != nil {
			p.Log.V(1).Info("another replica did not answer a question", "address", other.address, "err", err.Error())
			continue
		}
		answers = append(answers, answer)
	}
	return answers
}

// query asks a replica for no content, and returns the name that it gives, or "" from an earlier version.
func (s *sender) query(ctx context.Context, address, path string) (name string, err error) {
	ctx, cancel := context.WithTimeout(ctx, aliveTimeout)
	defer cancel()
	at := url.URL{Scheme: "https", Host: address, Path: s.path(path)}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return "", err
	}
	header, _, err := s.do(request, http.StatusNoContent)
	return header.Get(nameHeader), err
}

// do returns the answer to a request.
func (s *sender) do(request *http.Request, want int) (http.Header, []byte, error) {
	response, err := s.client.Do(request)
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		err = failed.Err // the path is a credential and does not belong in a log
	}
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close() //nolint:errcheck // all was read
	answer, err := io.ReadAll(io.LimitReader(response.Body, answerMax))
	if err != nil {
		return nil, nil, err
	}
	if response.StatusCode != want {
		return nil, nil, fmt.Errorf("it answers %s", response.Status)
	}
	return response.Header, answer, nil
}
