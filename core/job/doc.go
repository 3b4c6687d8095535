// Package job holds the pure types of the scheduler: what a job is, where it
// belongs, the states that it goes through, and when it is tried again. It does no
// I/O, reads no clock and draws no random numbers.
//
// # Identity
//
// A job's id is chosen by the caller that enqueues it, before the first request is sent,
// so that a request without an answer can be repeated without making a second
// job. With an idempotency key the id is a function of queue and key; without one
// it is made of a UUID (UniqueID). The id embeds its shard, "<shard>-<32 hex digits>", and the shard
// is a hash of those digits: a job can be found by its id alone, and an id that
// names another shard than its own is refused.
//
// # Runs and tokens
//
// Each claim of a job makes a Run with an id of its own, fence<<32 | seq: the fence
// of the shard's ownership, and a number that rises within it. The id names the
// attempt, and is the fencing token that its effects carry: it rises strictly in
// each shard and so for each job. In JSON it is a decimal string, since it does not
// fit into a double.
//
// # States
//
//	pending ──claim──> running ──> completed
//	   ^                  │──────> dlq        attempts used up, or an error made by Permanent
//	   └──retry, rescue───│──────> cancelled  by its handler, or from outside
//	                      └──────> abandoned  rescued with policy at_most_once
//
// A pending job may also be cancelled, and a job in the dead letter queue redriven:
// then it is pending again.
//
// # Sequences
//
// A job may name the jobs that follow it, Job1 -> Job2 -> Job3. The next one is
// enqueued by the very step that ends the one before it, with an id made from that
// one's, so there is exactly one. It follows a completed job, and a failed one (dlq,
// abandoned) if that says go_on. It does not follow a cancelled one: that is how a
// sequence is ended. A job in the dead letter queue that stopped its sequence resumes
// it when it is redriven and completes; one whose sequence went on does not again.
//
// # Attempts
//
// Attempts count claims, not starts: a run that was claimed and never started
// because its owner died spent an attempt. After a redrive they are counted from 0.
package job
