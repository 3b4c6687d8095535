package owncheck

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
)

const (
	// lookEvery is how often a history is looked at while it is written.
	lookEvery = 20 * time.Millisecond
	// early is by how much a time may be before its line can have been written: a process may be
	// kept from running between the two.
	early = int64(time.Second)
	// late is by how much it may be after its line was read: not at all, but for rounding.
	late = int64(time.Millisecond)
)

// Clock compares the times in a history, as it is written, with the harness's own clock.
type Clock struct {
	Seen          int // lines
	Ahead, Behind Stray
}

// Stray is the first of several times that cannot be CLOCK_MONOTONIC's.
type Stray struct {
	Event history.Event
	By    int64
	Count int
}

func (s *Stray) add(e *history.Event, by int64) {
	if s.Count == 0 {
		s.Event, s.By = *e, by
	}
	s.Count++
}

// line looks at a line that was not there at least, and was read at now.
func (c *Clock) line(e *history.Event, least, now int64) {
	if history.Life(e.Proc) == history.Harness || e.Op == history.NoteCrash {
		return
	}
	c.Seen++
	switch {
	case e.TS > now+late:
		c.Ahead.add(e, e.TS-now)
	case e.TS < least-early:
		c.Behind.add(e, least-e.TS)
	}
}

// Watch looks at the history of the run in dir until ctx is over.
func (c *Clock) Watch(ctx context.Context, dir string) error {
	least := history.Now()
	feed, err := history.NewFeed(filepath.Join(dir, rundir.HistoryDir))
	if err != nil {
		return err
	}
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		began := history.Now()
		if err := feed.Next(func(e *history.Event) { c.line(e, least, history.Now()) }); err != nil {
			return err
		}
		least = began
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// astray: the times are not those of the harness's clock.
func (c *Clock) astray() bool { return c.Ahead.Count+c.Behind.Count > 0 }

const clockDo = "take every time from CLOCK_MONOTONIC, in ns, right before the line is written"

func clock(r *Run) (out []Finding) {
	c := r.Clock
	if c.Seen == 0 {
		return one(Unchecked, "no line was read while it was written")
	}
	for _, s := range []struct {
		Stray
		than string
	}{{c.Ahead, "after the harness's clock when it read the line"}, {c.Behind, "before the line was there"}} {
		if s.Count > 0 {
			f := Finding{Status: Wrong, Do: clockDo, Text: fmt.Sprintf("ts %d is %s %s", s.Event.TS, ms(s.By), s.than)}
			if s.Count > 1 {
				f.Text += fmt.Sprintf(" (and %d more)", s.Count-1)
			}
			out = append(out, r.at(f, r.line(&s.Event)))
		}
	}
	if out == nil {
		return one(OK, "the times of %s are those of the harness's clock as they were written", plural(c.Seen, "line"))
	}
	return out
}

// line finds an event that was read as it was written.
func (r *Run) line(e *history.Event) *history.Event {
	for i := range r.History.Events {
		if x := &r.History.Events[i]; x.TS == e.TS && x.Proc == e.Proc && x.ID == e.ID && x.Type == e.Type && x.Op == e.Op {
			return x
		}
	}
	return nil
}
