package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestJournalDefaults(t *testing.T) {
	for name, tc := range map[string]struct {
		content string
		want    Journal
	}{
		"None": {"", Journal{Sink: JournalNone}},
		"File": {"journal: {sink: File, file: {directory: /journal, retention: 48h}}", Journal{Sink: JournalFile, File: &FileJournal{
			Directory: "/journal", Retention: Duration{Duration: 48 * time.Hour}, MaxBytes: 1 << 30, MaxFileBytes: 64 << 20,
		}}},
		"S3":     {"journal: {sink: S3, s3: {bucket: quota, prefix: clusters/a}}", Journal{Sink: JournalS3, S3: &S3Journal{Bucket: "quota", Prefix: "clusters/a"}}},
		"Stdout": {"journal: {sink: Stdout}", Journal{Sink: JournalStdout}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := load(t, head+tc.content)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, c.Journal, cmpopts.EquateComparable(Duration{})); diff != "" {
				t.Errorf("The journal differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseS3Location(t *testing.T) {
	for name, tc := range map[string]struct {
		location string
		want     S3Journal
		wantErr  string
	}{
		"bucket":      {"s3://quota", S3Journal{Bucket: "quota"}, ""},
		"all":         {"s3://quota/clusters/a/?endpoint=minio:9000&insecure=true&region=eu-1", S3Journal{Bucket: "quota", Prefix: "clusters/a", Endpoint: "minio:9000", Region: "eu-1", Insecure: true}, ""},
		"no bucket":   {"s3:///a", S3Journal{}, "bucket: Required value"},
		"password":    {"s3://key:secret@quota", S3Journal{}, "must not have credentials"},
		"parameter":   {"s3://quota?endpiont=a", S3Journal{}, `there is no parameter "endpiont"`},
		"insecure":    {"s3://quota?insecure=si", S3Journal{}, "insecure must be true or false"},
		"another URL": {"https://quota", S3Journal{}, "must be of the form s3://"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseS3Location(tc.location)
			if tc.wantErr != "" || err != nil {
				if err == nil || tc.wantErr == "" || !strings.Contains(err.Error(), tc.wantErr) || strings.Contains(err.Error(), "secret@") {
					t.Fatalf("got %v, want an error with %q", err, tc.wantErr)
				}
				return
			}
			if diff := cmp.Diff(&tc.want, got); diff != "" {
				t.Errorf("The location differs (-want +got):\n%s", diff)
			}
		})
	}
}
