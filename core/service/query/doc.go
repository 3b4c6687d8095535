// Package query reads jobs, schedules and shards from the store for people: what an API
// shows. It owns nothing, changes nothing and keeps nothing.
//
// # How current it is
//
// Reads are plain quorum reads: what was acknowledged before a read began is seen by it.
// A job's state and its body are two rows, read one after the other. If the job moves
// meanwhile, both are read again; after some times the state is returned without the body.
//
// # Lists
//
// There is no index over all jobs. A queue consists of several partitions; a listing walks
// them one after the other, each in its own order, in ranges that the store bounds. A page
// is bounded by the number of rows that are read, and by the number of shards. So it may
// have fewer rows than its limit, or none, and not be the last one: the last one has Next
// "". Jobs that move between two pages may be in both or in none.
//
//	pending, running, dlq           one range of rows a shard, in the order in which they
//	                                are scanned, claimed, ended
//	completed, cancelled, abandoned the index by which jobs are forgotten, oldest first, and
//	                                a read of the job's row for each entry, also for those of
//	                                the other two states. Of these jobs nothing but the
//	                                state is left, and that for the dedupe window
//
// A job in an inbox is in no list until the shard's owner has copied it.
//
// No counters are kept: the depth of a queue is counted by reading keys, up to MaxDepth of
// each state in each shard.
package query
