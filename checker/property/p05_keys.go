package property

import (
	"fencepost/checker/past"
)

// keyOf is a key in its queue.
type keyOf struct{ queue, key string }

// checkKeys: an id stands for one key of one queue, and a key for one id. Else one of two jobs
// would be taken for the other, or one for two.
func (a *Judgement) checkKeys(p *Property) {
	ids := map[keyOf]*past.Job{}
	for _, j := range a.Jobs.List {
		var first *past.Op
		for _, o := range j.Calls {
			spec := o.Invoke.Job()
			if spec.Key == "" {
				continue
			}
			if first == nil {
				first = o
			}
			if was := first.Invoke.Job(); was.Key != spec.Key || was.Queue != spec.Queue {
				p.add(j.ID, past.Events(first, o), "job %s was enqueued with the key %q in %s and with the key %q in %s: two jobs have one id",
					j.ID, was.Key, was.Queue, spec.Key, spec.Queue)
				break
			}
		}
		if first == nil {
			continue
		}
		k := keyOf{first.Invoke.Job().Queue, first.Invoke.Job().Key}
		if twin := ids[k]; twin != nil {
			p.add(j.ID, past.Events(twin.Calls[0], first), "jobs %s and %s were enqueued with one key, %q in %s: one job has two ids",
				twin.ID, j.ID, k.key, k.queue)
		}
		ids[k] = j
	}
}
