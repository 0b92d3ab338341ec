// Package files stores the journal in the files of a directory, one CloudEvent a line, and reads it from there.
//
// A file belongs to the replica that created it. Its name consists of the time of its creation and the replica's
// name. So names are in the order of time, and replicas can share a directory. A replica appends to its newest file.
// It begins another one at each start, when the file is full, and when it has not written for [idleMax]. It
// compresses finished files with gzip. It deletes the oldest ones by age, and by the size of the whole directory.
//
// The names of replicas on a cluster change with each rollout, so a replica looks after the files of others, too,
// once they are older than [abandonedAfter]. It never meets their writer there, because their writer would begin
// another file.
//
// The package uses no library for the rotation of logs, because a journal makes a promise beyond a log's:
// [Sink.Append] returns once a crash cannot lose the entries. lumberjack and its relatives never sync, and compress
// without syncing before they delete. They also hide a file's change from its writer, although the writer would have
// to repair a torn line.
//
// Package journalconfig opens sinks and sources by configuration; other packages do not import this one.
package files
