package property

import (
	"slices"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// keyOf is a key in its queue.
type keyOf struct{ queue, key string }

func keyIn(o *past.Op) keyOf { return keyOf{o.Invoke.Job().Queue, o.Invoke.Job().Key} }

// keyed is a job's first enqueue that says its key, or nil.
func keyed(j *past.Job) *past.Op {
	for _, o := range j.Calls {
		if o.Invoke.Job().Key != "" {
			return o
		}
	}
	return nil
}

// checkKeys: an id stands for one key of one queue, and a key for one id. Else one of two jobs
// would be taken for the other, or one for two.
func (a *Judgement) checkKeys(p *Property) {
	calls := map[string]*past.Op{}
	for _, j := range a.Jobs.List {
		first := keyed(j)
		if first == nil {
			continue
		}
		if calls[j.ID] == nil { // else the id is one in another queue too
			calls[j.ID] = first
		}
		was := keyIn(calls[j.ID])
		for _, o := range j.Calls {
			if o.Invoke.Job().Key != "" && keyIn(o) != was {
				p.add(j.ID, past.Events(calls[j.ID], o), "job %s was enqueued with the key %q in %s and with the key %q in %s: two jobs have one id",
					j.ID, was.key, was.queue, keyIn(o).key, keyIn(o).queue)
				break
			}
		}
	}
	a.twoIDs(func(k keyOf, twin, j *past.Job) {
		p.add(j.ID, past.Events(twin.Calls[0], keyed(j)), "jobs %s and %s were enqueued with one key, %q in %s: one job has two ids",
			twin.ID, j.ID, k.key, k.queue)
	})
}

// twoIDs calls f for each two jobs of one queue that were enqueued with one key, one after the other.
func (a *Judgement) twoIDs(f func(k keyOf, before, j *past.Job)) {
	jobs := map[keyOf]*past.Job{}
	for _, j := range a.Jobs.List {
		o := keyed(j)
		if o == nil {
			continue
		}
		k := keyIn(o)
		if before := jobs[k]; before != nil {
			f(k, before, j)
		}
		jobs[k] = j
	}
}

// idsWithoutQueue: enqueues that were told to be duplicates, or done, of which their own shard has
// nothing, and another queue had a job with that key before; and ids that stand for jobs of two
// queues.
func (x *Inquiry) idsWithoutQueue() {
	first, ids := map[string][]*past.Op{}, map[string]*past.Op{}
	for _, j := range x.Jobs.List {
		if o := keyed(j); o != nil {
			first[keyIn(o).key] = append(first[keyIn(o).key], o)
			if twin := ids[j.ID]; twin != nil && keyIn(twin).queue != keyIn(o).queue {
				x.twins(j, twin, o, "one id")
			}
			ids[j.ID] = o
		}
	}
	for _, j := range x.Jobs.List {
		o := keyed(j)
		if _, entered := j.Entered(); o == nil || entered > 0 || o.Outcome != history.OK || o.End.Result == past.ResultInbox {
			continue
		}
		for _, twin := range first[keyIn(o).key] {
			if keyIn(twin).queue != keyIn(o).queue && twin.Invoke.TS < o.Invoke.TS {
				x.twins(j, twin, o, "one key")
				break
			}
		}
	}
}

// keysWithTwoIDs: two jobs of one queue that were enqueued with one key.
func (x *Inquiry) keysWithTwoIDs() {
	x.twoIDs(func(k keyOf, twin, j *past.Job) {
		before, o := keyed(twin), keyed(j)
		s := x.found("key-with-two-ids", x.jobWeight(j, shown), "key %q of %s has the jobs %s and %s", k.key, k.queue, twin.ID, j.ID)
		s.showAt(j.ID, o.Invoke, x.before(before.Invoke, "%s enqueues key %q as job %s", before.Invoke.Proc, k.key, twin.ID),
			x.mistake(o.Invoke, "%s enqueues key %q as job %s", o.Invoke.Proc, k.key, j.ID))
	})
}

// jobsWithoutKey: enqueues of jobs without a key that were told to be duplicates, and nothing has
// these jobs. Where nobody says keys, none is known to have none.
func (x *Inquiry) jobsWithoutKey() {
	if !slices.ContainsFunc(x.Jobs.List, func(j *past.Job) bool { return keyed(j) != nil }) {
		return
	}
	for _, j := range x.Jobs.List {
		if _, entered := j.Entered(); entered > 0 || keyed(j) != nil {
			continue
		}
		for _, o := range j.Calls {
			if o.Outcome == history.OK && o.End.Result == past.ResultDuplicate {
				s := x.found("no-key-is-a-key", x.jobWeight(j, shown), "job %s has no key and is told to be a duplicate, and no batch has it", j.ID)
				s.showAt(j.ID, o.End, x.before(o.Invoke, "%s enqueues job %s, without a key", o.Invoke.Proc, j.ID),
					x.mistake(o.End, "it is told to be a duplicate"))
				break
			}
		}
	}
}

// twins are two enqueues in two queues, of which the second was taken for the first.
func (x *Inquiry) twins(j *past.Job, first, second *past.Op, same string) {
	s := x.found("id-without-queue", x.jobWeight(j, shown), "jobs of the queues %s and %s have %s, %q, and the second was told: %s",
		keyIn(first).queue, keyIn(second).queue, same, keyIn(second).key, second.Outcome)
	chain := []Step{x.before(first.Invoke, "%s enqueues job %s in %s", first.Invoke.Proc, first.Invoke.Key, keyIn(first).queue),
		x.mistake(second.Invoke, "%s enqueues job %s in %s", second.Invoke.Proc, second.Invoke.Key, keyIn(second).queue)}
	s.showAt(j.ID, second.Invoke, chain...)
}
