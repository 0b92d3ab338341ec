// Package files stores the journal in the files of a directory, one CloudEvent a line, and reads it from there.
//
// A file belongs to the replica that created it. Its name is the time of that and the replica's name, so names are in the
// order of time and replicas can share a directory. A replica appends to its newest file. It begins another one at each
// start, when the file is full, and when it has not written for [idleMax]. Files that are finished are compressed with gzip.
// The oldest ones are deleted by age, and by the size of the whole directory.
//
// The names of replicas on a cluster change with each rollout, so a replica looks after the files of others, too, once they
// are older than [abandonedAfter]. It never meets their writer there, because that writer would begin another file.
//
// No library for the rotation of logs is used, because a journal makes a promise that logs do not: [Sink.Append] returns
// once a crash cannot lose the entries. lumberjack and its relatives never sync, compress without syncing before they
// delete, and hide a file's change from the writer who would have to repair a torn line.
//
// Package journalconfig opens sinks and sources by configuration; other packages do not import this one.
package files
