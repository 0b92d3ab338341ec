// Package lines has the journal as JSON lines, one CloudEvent each: the sink for standard output, and the common part
// of the sources in packages files and s3.
//
// Each replica writes a [Stream] of its own: files in the order of time. [Merge] makes one sequence of the streams. A
// sink gets the entries of a consumer in order, but two replicas may have written parts of them alternately, and a
// replica repeats entries after an error. So Merge reads several streams twice: first for the numbers of the existing
// entries, and then for the entries, oldest first. An entry waits in memory if another stream has yet to bring its
// predecessor. There are few of these, because streams are about in the order of time. Merge decodes lines in
// parallel, and only if the query may select them.
package lines
