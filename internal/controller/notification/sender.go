package notification

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Limits of one attempt.
const (
	// attemptTimeout includes the connection and the whole answer.
	attemptTimeout = 10 * time.Second
	// headerBytesMax and bodyBytesMax bound the answer. The sender leaves the rest of a longer body unread, and the
	// connection closes.
	headerBytesMax = 64 << 10
	bodyBytesMax   = 64 << 10
	// secretBytesMax bounds the file of the secret. The specification has secrets of up to 64 bytes.
	secretBytesMax = 4 << 10
)

// secretPrefix marks a secret in base64.
const secretPrefix = "whsec_"

// Sender posts CloudEvents in structured mode to a receiver, and signs them by the Standard Webhooks specification.
type Sender struct {
	url, secretFile string
	clock           Clock
	client          *http.Client
}

// Clock has the time of the API server.
type Clock interface {
	Now() time.Time
}

// NewSender returns the sender to a URL. It reads the secret from its file at each attempt, to allow a rotation of the
// secret. Without a file it does not sign.
func NewSender(to, secretFile string, clock Clock) *Sender {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = headerBytesMax
	return &Sender{url: to, secretFile: secretFile, clock: clock, client: &http.Client{
		Transport: transport,
		Timeout:   attemptTimeout,
		// Nobody but the configured receiver gets the requests of users.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// statusError is an answer other than 2xx.
type statusError struct {
	code int
}

func (e *statusError) Error() string {
	return fmt.Sprintf("the receiver answered %d %s, want 2xx", e.code, http.StatusText(e.code))
}

// isLasting reports whether the same answer follows until a person changes the receiver or the configuration.
func (e *statusError) isLasting() bool {
	return e.code >= 300 && e.code < 500 && e.code != http.StatusRequestTimeout && e.code != http.StatusTooManyRequests
}

// send posts an event once. The error is a [statusError] if the receiver answers other than 2xx.
func (s *Sender) send(ctx context.Context, event *cloudevents.Event) error {
	body, err := json.Marshal(event)
	if err != nil {
		return fmt.Errorf("encode the event: %w", err)
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return withoutURL(err)
	}
	post.Header.Set("Content-Type", cloudevents.ApplicationCloudEventsJSON)
	post.Header.Set("User-Agent", "bursar")
	if s.secretFile != "" {
		if err := s.sign(post.Header, event.ID(), body); err != nil {
			return err
		}
	}
	answer, err := s.client.Do(post)
	if err != nil {
		return withoutURL(err)
	}
	defer func() { _ = answer.Body.Close() }() // the status is the answer
	// Reading the body makes the connection reusable. The content, and an error in it, have no meaning.
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, bodyBytesMax))
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return &statusError{answer.StatusCode}
	}
	return nil
}

// sign sets the headers of the signature.
func (s *Sender) sign(header http.Header, id string, body []byte) error {
	key, err := s.key()
	if err != nil {
		return err
	}
	now := s.clock.Now()
	signature, err := key.Sign(id, now, body)
	if err != nil {
		return fmt.Errorf("sign the event: %w", err)
	}
	header.Set(standardwebhooks.HeaderWebhookID, id)
	header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return nil
}

// key reads the secret. After the prefix whsec_ it is in base64; without the prefix its bytes are the key.
func (s *Sender) key() (*standardwebhooks.Webhook, error) {
	file, err := os.Open(s.secretFile)
	if err != nil {
		return nil, fmt.Errorf("read the secret of notifications: %w", err)
	}
	defer func() { _ = file.Close() }() // there was no write
	content, err := io.ReadAll(io.LimitReader(file, secretBytesMax+1))
	if err != nil {
		return nil, fmt.Errorf("read the secret of notifications: %w", err)
	}
	secret := strings.TrimRight(string(content), "\r\n")
	switch encoded, isEncoded := strings.CutPrefix(secret, secretPrefix); {
	case len(content) > secretBytesMax:
		return nil, fmt.Errorf("the secret of notifications in %s has more than %d bytes: write a shorter one", s.secretFile, secretBytesMax)
	case secret == "" || isEncoded && encoded == "":
		return nil, fmt.Errorf("the secret of notifications in %s is empty: write the secret there", s.secretFile)
	case !isEncoded:
		return standardwebhooks.NewWebhookRaw([]byte(secret))
	}
	key, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		// The error of the library may have part of the secret.
		return nil, fmt.Errorf("the secret of notifications in %s is not in base64 after %s: write it so, or without the prefix",
			s.secretFile, secretPrefix)
	}
	return key, nil
}

// withoutURL removes the URL from an error, because its query may be confidential.
func withoutURL(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}
