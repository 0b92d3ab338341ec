// Package s3 stores the journal in a bucket of an S3-compatible store, and reads it from there.
//
// Each Append writes one object of compressed lines. Its key is prefix/YYYY/MM/DD/time-replica-run-number.jsonl.gz,
// with the time of the write in UTC and a random name of the run. So keys are in the order of time, and no two
// writers have the same. A repeated upload of one object writes the same bytes. The bucket's lifecycle rule deletes
// old objects: the sink needs no permission to delete, and none to list.
//
// Package journalconfig opens sinks and sources by configuration; other packages do not import this one.
package s3
