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
// There is no index over all jobs: a queue is so many partitions, and a list walks them one
// after the other, each in its own order, by ranges that the store bounds. What is asked
// for in one page is bounded, too: by the number of rows that are looked at, and by the
// number of shards. So a page may have fewer rows than its limit, or none, and yet not be
// the last: that is when Next is "". Jobs that come and go between two pages may be in
// both or in none.
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
// Nothing counts the jobs of a queue as they come and go: its depth is counted by reading
// keys, up to MaxDepth of each state in each shard.
package query
