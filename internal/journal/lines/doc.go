// Package lines has the journal as JSON lines, one CloudEvent each: the sink that writes them to standard output, and
// what the sources in packages files and s3 share.
//
// Each replica writes a [Stream] of its own: files in the order of time. [Merge] makes one sequence of the streams. A
// sink gets the entries of a consumer in order, but two replicas may have written parts of them alternately, and a replica
// repeats entries after an error. So Merge reads the streams twice if there are several: first for the numbers of the
// entries that exist, and then for the entries, oldest first. An entry whose predecessor another stream has yet to bring
// waits in memory; there are few of them, because streams are about in the order of time. Lines are decoded in parallel,
// and only if the query may select them.
package lines
