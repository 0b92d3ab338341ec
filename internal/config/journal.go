package config

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Defaults and bounds of [Journal].
const (
	DefaultJournalRetention    = 90 * 24 * time.Hour
	JournalRetentionMin        = 24 * time.Hour
	DefaultJournalMaxBytes     = 1 << 30
	DefaultJournalMaxFileBytes = 64 << 20
	// JournalMaxFileBytesMin keeps the number of files small.
	JournalMaxFileBytesMin = 1 << 20
)

// JournalSink is where the journal is stored.
type JournalSink string

// The sinks: nowhere, the files of a directory, an S3-compatible bucket, or standard output.
const (
	JournalNone   JournalSink = "None"
	JournalFile   JournalSink = "File"
	JournalS3     JournalSink = "S3"
	JournalStdout JournalSink = "Stdout"
)

// Journal configures where each change of a limit and of use is recorded.
type Journal struct {
	// Sink is None, File, S3 or Stdout. Default: None on a cluster, File on a standalone server.
	Sink JournalSink `json:"sink,omitempty"`
	// File configures the sink File.
	File *FileJournal `json:"file,omitempty"`
	// S3 configures the sink S3.
	S3 *S3Journal `json:"s3,omitempty"`
}

// Location names where the journal is stored, for people. It is empty if nothing is.
func (j *Journal) Location() string {
	switch {
	case j.Sink == JournalFile && j.File != nil:
		return j.File.Directory
	case j.Sink == JournalS3 && j.S3 != nil:
		return "s3://" + path.Join(j.S3.Bucket, j.S3.Prefix)
	case j.Sink == JournalStdout:
		return "standard output"
	default:
		return ""
	}
}

// FileJournal configures the files of a journal.
type FileJournal struct {
	// Directory is the absolute path of the directory. Replicas may share one on a common volume. Required on a cluster.
	// Default on a standalone server: journal in its data directory.
	Directory string `json:"directory,omitempty"`
	// Retention is the age of files at their deletion, at least 24h. Default: 2160h, 90 days.
	Retention Duration `json:"retention,omitempty"`
	// MaxBytes is the size of all files together. Beyond it Bursar deletes the oldest before their time. It is at least
	// maxFileBytes. Default: 1073741824, 1 GiB.
	MaxBytes int64 `json:"maxBytes,omitempty"`
	// MaxFileBytes is the size at which Bursar finishes and compresses a file, at least 1048576. Default: 67108864, 64 MiB.
	MaxFileBytes int64 `json:"maxFileBytes,omitempty"`
}

// S3Journal configures the bucket of a journal. Credentials come from the environment or the machine's identity.
type S3Journal struct {
	// Endpoint is the host, or host:port, of the store. Default: s3.amazonaws.com.
	Endpoint string `json:"endpoint,omitempty"`
	// Region is the region of the bucket. Default: the client asks the store.
	Region string `json:"region,omitempty"`
	// Bucket is the name of an existing bucket. Required.
	Bucket string `json:"bucket,omitempty"`
	// Prefix begins the keys of all objects, such as clusters/a. Default: none.
	Prefix string `json:"prefix,omitempty"`
	// Insecure uses HTTP instead of HTTPS. Default: false.
	Insecure bool `json:"insecure,omitempty"`
}

// setDefaults sets the defaults of the chosen sink.
func (j *Journal) setDefaults() {
	setDefault(&j.Sink, JournalNone)
	if j.Sink != JournalFile {
		return
	}
	if j.File == nil {
		j.File = &FileJournal{}
	}
	setDefault(&j.File.Retention.Duration, DefaultJournalRetention)
	setDefault(&j.File.MaxFileBytes, DefaultJournalMaxFileBytes)
	setDefault(&j.File.MaxBytes, max(DefaultJournalMaxBytes, j.File.MaxFileBytes))
}

func (j *Journal) check(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if j.File != nil && j.Sink != JournalFile {
		errs = append(errs, field.Forbidden(path.Child("file"), fmt.Sprintf("it has no effect with the sink %s: choose the sink File, or leave it out", j.Sink)))
	}
	if j.S3 != nil && j.Sink != JournalS3 {
		errs = append(errs, field.Forbidden(path.Child("s3"), fmt.Sprintf("it has no effect with the sink %s: choose the sink S3, or leave it out", j.Sink)))
	}
	switch j.Sink {
	case JournalNone, JournalStdout:
	case JournalFile:
		errs = append(errs, j.File.check(path.Child("file"))...)
	case JournalS3:
		if j.S3 == nil {
			return append(errs, field.Required(path.Child("s3", "bucket"), "name the bucket"))
		}
		errs = append(errs, j.S3.check(path.Child("s3"))...)
	default:
		errs = append(errs, field.NotSupported(path.Child("sink"), j.Sink, []JournalSink{JournalNone, JournalFile, JournalS3, JournalStdout}))
	}
	return errs
}

func (f *FileJournal) check(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case f.Directory == "":
		errs = append(errs, field.Required(path.Child("directory"), "name the directory for the files"))
	case !filepath.IsAbs(f.Directory):
		errs = append(errs, field.Invalid(path.Child("directory"), f.Directory, "must be an absolute path"))
	}
	errs = append(errs, f.Retention.check(path.Child("retention"), JournalRetentionMin)...)
	if f.MaxFileBytes < JournalMaxFileBytesMin {
		errs = append(errs, field.Invalid(path.Child("maxFileBytes"), f.MaxFileBytes, fmt.Sprintf("must be at least %d", JournalMaxFileBytesMin)))
	}
	if f.MaxBytes < f.MaxFileBytes {
		errs = append(errs, field.Invalid(path.Child("maxBytes"), f.MaxBytes, fmt.Sprintf("must be at least the size of one file, %d", f.MaxFileBytes)))
	}
	return errs
}

var (
	bucketPattern   = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	endpointPattern = regexp.MustCompile(`^([A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(:[0-9]{1,5})?$`)
)

func (s *S3Journal) check(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case s.Bucket == "":
		errs = append(errs, field.Required(path.Child("bucket"), "name the bucket"))
	case !bucketPattern.MatchString(s.Bucket):
		errs = append(errs, field.Invalid(path.Child("bucket"), s.Bucket, "cannot be the name of a bucket: a bucket has 3 to 63 lower-case letters, digits, '.' and '-'"))
	}
	if s.Endpoint != "" && !endpointPattern.MatchString(s.Endpoint) {
		errs = append(errs, field.Invalid(path.Child("endpoint"), s.Endpoint, "must be of the form host or host:port, without a scheme and a path"))
	}
	if strings.HasPrefix(s.Prefix, "/") || strings.HasSuffix(s.Prefix, "/") || strings.Contains(s.Prefix, "//") {
		errs = append(errs, field.Invalid(path.Child("prefix"), s.Prefix, "must not begin or end with a slash, or have two in a row"))
	}
	return errs
}

// s3Scheme begins the location of a journal in a bucket.
const s3Scheme = "s3://"

// IsS3Location reports whether a location is that of a bucket.
func IsS3Location(location string) bool { return strings.HasPrefix(location, s3Scheme) }

// ParseS3Location parses s3://bucket/prefix?endpoint=host:port&region=name&insecure=true.
func ParseS3Location(location string) (*S3Journal, error) {
	const form = "must be of the form s3://bucket/prefix?endpoint=host:port&region=name&insecure=true"
	at, err := url.Parse(location)
	if err != nil || !IsS3Location(location) || at.Fragment != "" {
		return nil, fmt.Errorf("%q is not the location of a journal: it %s", location, form)
	}
	if at.User != nil {
		return nil, errors.New("the location of a journal must not have credentials: give them in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	s := &S3Journal{Bucket: at.Host, Prefix: strings.Trim(at.Path, "/")}
	query, err := url.ParseQuery(at.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("%q is not the location of a journal: it %s", location, form)
	}
	for key, values := range query {
		value := values[len(values)-1]
		switch key {
		case "endpoint":
			s.Endpoint = value
		case "region":
			s.Region = value
		case "insecure":
			if s.Insecure, err = strconv.ParseBool(value); err != nil {
				return nil, fmt.Errorf("%q is not the location of a journal: insecure must be true or false, and is %q", location, value)
			}
		default:
			return nil, fmt.Errorf("%q is not the location of a journal: there is no parameter %q; it %s", location, key, form)
		}
	}
	if err := s.check(nil).ToAggregate(); err != nil {
		return nil, fmt.Errorf("%q is not the location of a journal: %w", location, err)
	}
	return s, nil
}
