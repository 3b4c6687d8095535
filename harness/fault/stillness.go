package fault

import (
	"context"
	"fmt"
	"time"

	"fencepost/harness/env/link"
	"fencepost/harness/target/fleet"
)

const (
	// grace is how long nothing of stopped workers must arrive until what the kernel held
	// of them counts as delivered; on a busy machine that comes late, within graceLimit.
	grace      = 200 * time.Millisecond
	graceLimit = 5 * time.Second
)

// stillness is of workers that are stopped: nothing of theirs reaches a link, or a file.
type stillness struct {
	env     *Env
	workers []*fleet.Worker
	before  traces
}

// traces are what a worker has left: bytes on its links, and in its history.
type traces struct{ sent, recorded int64 }

func (env *Env) traces(workers []*fleet.Worker) traces {
	var t traces
	for _, w := range workers {
		t.recorded += w.Recorded()
		for _, l := range env.WorkerLinks.Of(w.Name()) {
			d := link.Up
			if l.To() == w.Name() {
				d = link.Down
			}
			t.sent += l.Counters().Dir(d).ReceivedBytes
		}
	}
	return t
}

// newStillness waits until what the kernel holds of stopped workers has arrived.
func newStillness(ctx context.Context, env *Env, workers []*fleet.Worker) stillness {
	s := stillness{env, workers, env.traces(workers)}
	for began := time.Now(); time.Since(began) < graceLimit; {
		select {
		case <-ctx.Done():
			return s
		case <-time.After(grace):
		}
		now := env.traces(workers)
		if now == s.before {
			break
		}
		s.before = now
	}
	return s
}

// kept says that nothing has come since, or what has.
func (s stillness) kept() Evidence {
	now := s.env.traces(s.workers)
	sent, recorded := now.sent-s.before.sent, now.recorded-s.before.recorded
	if sent != 0 || recorded != 0 {
		return Evidence{Text: fmt.Sprintf("though stopped, %d bytes of theirs reached their links, and %d their histories", sent, recorded)}
	}
	return Evidence{Proven: true, Text: "nothing of theirs has reached a link or a history since"}
}
