package workload

import (
	"fmt"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
)

// queues are all queues of the workload.
func (j *Jobs) queues() []string {
	if len(j.Queues) == 0 {
		return []string{j.Queue}
	}
	return j.Queues
}

// engineQueues are those that a worker's engine has.
func (j *Jobs) engineQueues() (out []engine.Queue) {
	for _, q := range j.queues() {
		out = append(out, engine.Queue{Name: q, Shards: j.Shards})
	}
	return out
}

// shards are those of all queues.
func (j *Jobs) shards() (out []store.ShardID) {
	for _, q := range j.queues() {
		for n := range j.Shards {
			out = append(out, store.ShardID{Queue: q, Shard: n})
		}
	}
	return out
}

// place is the queue and the key of the n-th job of a life, from 1. Each key goes to every queue,
// one after the other: jobs that differ in nothing but their queue are different jobs.
func (j *Jobs) place(life string, n int) (queue, key string) {
	all := j.queues()
	return all[n%len(all)], fmt.Sprintf("%s-%d", life, n/len(all))
}

// jobRef names a job: ids are unique within their queue.
type jobRef struct {
	queue string
	id    job.ID
}

func refOf(j job.Job) jobRef { return jobRef{j.Queue, j.ID} }
