package workload

import (
	"sync"

	"fencepost/core/job"
	"fencepost/core/store"
)

// reask is what an enqueuer does when it sees that queues have more shards: it asks again for the jobs that it
// had with keys before, by the ids that their keys have then.
type reask struct {
	mu   sync.Mutex
	last []job.Job // with keys, that were acknowledged last

	shards   int       // of all queues; used by run only
	askAgain []job.Job // used by run only
}

// keptKeys is how many jobs it asks for again.
const keptKeys = 100

// keep remembers a job that was acknowledged.
func (s *reask) keep(j job.Job) {
	if j.Key == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last = append(s.last, j); len(s.last) > 2*keptKeys {
		s.last = append([]job.Job(nil), s.last[len(s.last)-keptKeys:]...)
	}
}

// size is how many shards a queue has.
func (e *enqueuer) size(queue string) store.Queue {
	if e.sizes != nil {
		if q, _ := store.QueueNamed(e.sizes(), queue); q.First > 0 {
			return q
		}
	}
	return store.Queue{Name: queue, First: e.cfg.Jobs.Shards, Shards: e.cfg.Jobs.Shards}
}

// raised is the next job to ask for again; every second one is new.
func (e *enqueuer) raised() (j job.Job, ok bool) {
	shards := 0
	for _, queue := range e.cfg.Jobs.queues() {
		shards += e.size(queue).Shards
	}
	if e.shards > 0 && shards > e.shards {
		e.mu.Lock()
		e.askAgain = append(e.askAgain, e.last...)
		e.mu.Unlock()
	}
	e.shards = shards
	if len(e.askAgain) == 0 || e.drawn%2 == 0 {
		return j, false
	}
	j, e.askAgain = e.askAgain[0], e.askAgain[1:]
	return e.keyed(j, j.Key), true
}
