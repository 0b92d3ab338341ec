package s3

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Timeouts of calls. A listing has many pages, and each is a call.
const (
	putTimeout    = 30 * time.Second
	getTimeout    = time.Minute
	headerTimeout = 20 * time.Second
	attemptsMax   = 3
)

// DefaultEndpoint is the endpoint of AWS.
const DefaultEndpoint = "s3.amazonaws.com"

// Options say where the objects are. The credentials come from the environment (AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY), the shared credentials file, a web identity (AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN),
// or the metadata service of the machine.
type Options struct {
	// Endpoint is the host, or host:port, of the store. Default: DefaultEndpoint.
	Endpoint string
	// Insecure uses HTTP instead of HTTPS.
	Insecure bool
	// Region is the bucket's. Default: the client asks the store.
	Region string
	Bucket string
	// Prefix begins all keys, without a slash at its ends. It may be empty.
	Prefix string
}

func (o Options) client() (*minio.Client, error) {
	if o.Bucket == "" {
		return nil, errors.New("open the journal in S3: no bucket is given")
	}
	if o.Endpoint == "" {
		o.Endpoint = DefaultEndpoint
	}
	transport, err := minio.DefaultTransport(!o.Insecure)
	if err != nil {
		return nil, fmt.Errorf("open the journal in S3: %w", err)
	}
	transport.ResponseHeaderTimeout = headerTimeout
	client, err := minio.New(o.Endpoint, &minio.Options{
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{Client: &http.Client{Transport: transport, Timeout: headerTimeout}},
		}),
		Secure: !o.Insecure, Region: o.Region, Transport: transport, MaxRetries: attemptsMax,
	})
	if err != nil {
		return nil, fmt.Errorf("open the journal in the bucket %s at %s: %w", o.Bucket, o.Endpoint, err)
	}
	return client, nil
}

const (
	// dayFormat is the day in a key.
	dayFormat = "2006/01/02"
	// timeFormat has a fixed width, so keys sort by time.
	timeFormat = "20060102T150405.000000000Z"
	// ending ends all keys.
	ending = ".jsonl.gz"
)

// inPrefix returns a key below the prefix.
func (o Options) inPrefix(key string) string {
	if o.Prefix == "" {
		return key
	}
	return strings.Trim(o.Prefix, "/") + "/" + key
}

// keyAt returns the beginning of the keys of objects written at a time.
func (o Options) keyAt(at time.Time) string {
	at = at.UTC()
	return o.inPrefix(at.Format(dayFormat) + "/" + at.Format(timeFormat))
}

// writerOf returns the replica and the run in a key. It is not ok for the keys of other objects.
func writerOf(key string) (writer string, ok bool) {
	base, ok := strings.CutSuffix(key[strings.LastIndexByte(key, '/')+1:], ending)
	if !ok || len(base) < len(timeFormat) || base[len(timeFormat)-1] != 'Z' {
		return "", false
	}
	if _, err := time.Parse(timeFormat, base[:len(timeFormat)]); err != nil {
		return "", false
	}
	number := strings.LastIndexByte(base, '-')
	if number <= len(timeFormat) {
		return "", false
	}
	return base[len(timeFormat)+1 : number], true
}
