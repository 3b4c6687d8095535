package schedule

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fencepost/core/job"
	"fencepost/internal/race"
)

func mustNew(t interface {
	Helper()
	Fatal(...any)
}, d Definition) *Schedule {
	t.Helper()
	if d.Queue == "" {
		d.Queue, d.Key, d.Job.Kind = "q", "k", "mail"
	}
	s, err := New(d, 4)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// model decides each nominal time by itself, by the table in the package's
// documentation, from a list of all of them.
type model struct {
	s        *Schedule
	list     []int64
	last     int64
	disabled bool
	active   job.Occurrence
	queue    []job.Occurrence
}

func (m *model) decide(now int64, limit int) (fire []job.Occurrence, missed, skipped int64) {
	busy := func() bool { return m.s.Overlap != OverlapAllow && m.active != job.Occurrence{} }
	for len(m.queue) > 0 && !busy() && len(fire) < limit {
		m.active, m.queue = m.queue[0], m.queue[1:]
		fire = append(fire, m.active)
	}
	if m.disabled {
		return
	}
	var due []int64
	for _, t := range m.list {
		if m.last < t && t <= now {
			due = append(due, t)
		}
	}
	tolerated := m.s.Grace
	if m.s.Misfire == MisfireAll {
		tolerated = m.s.Window
	}
	for n, t := range due {
		late := time.Duration(now-t)*time.Millisecond > tolerated
		o := job.Occurrence{Schedule: m.s.Key, Nominal: t}
		switch {
		case late && !(m.s.Misfire == MisfireOnce && n == len(due)-1):
			missed++
		case !busy():
			if len(fire) >= limit {
				return
			}
			m.active = o
			fire = append(fire, o)
		case m.s.Overlap == OverlapQueue && len(m.queue) < MaxQueue:
			m.queue = append(m.queue, o)
		default:
			skipped++
		}
		m.last = t
	}
	return
}

func (m *model) next(now int64) int64 {
	if len(m.queue) > 0 && (m.s.Overlap == OverlapAllow || m.active == job.Occurrence{}) {
		return now
	}
	for _, t := range m.list {
		if t > m.last && !m.disabled {
			return t
		}
	}
	return Never
}

const horizon = 4000 // seconds that a model's list covers

// modelled draws a definition with the list of all its nominal times.
func modelled(t *rapid.T) (Definition, []int64) {
	d := Definition{
		Misfire: rapid.SampledFrom([]Misfire{MisfireSkip, MisfireOnce, MisfireAll}).Draw(t, "misfire"),
		Overlap: rapid.SampledFrom([]Overlap{OverlapAllow, OverlapSkip, OverlapQueue}).Draw(t, "overlap"),
		Grace:   time.Duration(rapid.IntRange(1, 20000).Draw(t, "grace")) * time.Millisecond,
	}
	if d.Misfire == MisfireAll {
		d.Window = d.Grace + time.Duration(rapid.IntRange(0, 200000).Draw(t, "window"))*time.Millisecond
	}
	step := rapid.IntRange(1, 40).Draw(t, "step")
	var list []int64
	switch d.Kind = rapid.SampledFrom([]Kind{Now, At, Cron, FixedRate}).Draw(t, "kind"); d.Kind {
	case Now:
		list = []int64{0}
	case At:
		d.At = time.UnixMilli(int64(step) * 777)
		list = []int64{int64(step) * 777}
	case Cron:
		d.Cron = fmt.Sprintf("*/%d * * * * *", step)
		for s := range int64(horizon) {
			if s%60%int64(step) == 0 {
				list = append(list, s*1000)
			}
		}
	case FixedRate:
		d.Every = time.Duration(step*500+500) * time.Millisecond
		for ms := int64(0); ms < horizon*1000; ms += d.Every.Milliseconds() {
			list = append(list, ms)
		}
	}
	if until := rapid.Int64Range(0, 400000).Draw(t, "until"); until > 0 && d.Kind != Now && d.Kind != At {
		d.Until = time.UnixMilli(until)
		list = slices.DeleteFunc(list, func(t int64) bool { return t >= until })
	}
	return d, list
}

// TestDecide compares every step with the model, whatever clocks and jobs do.
func TestDecide(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d, list := modelled(t)
		s := mustNew(t, d)
		m := &model{s: s, list: list, last: -1}
		st := s.Start(0)
		now, newest := int64(0), int64(-1)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = min(now+rapid.SampledFrom([]int64{0, 1, 700, 1000, 3500, 20000, 250000, -5000}).Draw(t, "passes"), horizon*1000-60000)
			before := st
			var got Decision
			op := rapid.SampledFrom([]string{"decide", "decide", "decide", "end", "end", "end another", "trigger", "trigger", "disable", "enable"}).Draw(t, "op")
			limit := rapid.IntRange(1, 5).Draw(t, "limit")
			var fire []job.Occurrence
			var missed, skipped int64
			switch op {
			case "decide":
				got = s.Decide(st, now, limit)
				fire, missed, skipped = m.decide(now, limit)
			case "end":
				got = s.Ended(st, st.Active, now)
				if m.s.Overlap != OverlapAllow && m.active != (job.Occurrence{}) {
					fire, missed, skipped = m.decide(now, 0)
				}
				m.active = job.Occurrence{}
			case "end another":
				got = s.Ended(st, job.Occurrence{Schedule: "k", Nominal: -1}, now)
			case "trigger":
				name := rapid.SampledFrom([]string{"t1", "t2", "t3"}).Draw(t, "trigger")
				var err error
				got, err = s.Trigger(st, name, now)
				o := job.Occurrence{Schedule: "k", Nominal: now, Trigger: name}
				busy := s.Overlap != OverlapAllow && m.active != (job.Occurrence{})
				known := busy && m.active.Trigger == name || slices.ContainsFunc(m.queue, func(p job.Occurrence) bool { return p.Trigger == name })
				switch {
				case known:
				case !busy:
					m.active, fire = o, []job.Occurrence{o}
				case s.Overlap == OverlapQueue && len(m.queue) < MaxQueue:
					m.queue = append(m.queue, o)
				case err != ErrOverlap:
					t.Fatalf("trigger: %v, want %v", err, ErrOverlap)
				default:
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
			case "disable":
				got = s.Disable(st, now)
				if !m.disabled {
					skipped, m.queue, m.disabled = int64(len(m.queue)), nil, true
				}
			case "enable":
				got = Decision{State: s.Enable(st, now)}
				if m.disabled {
					m.disabled, m.last = false, max(m.last, now)
				}
				got.Next = m.next(now)
			}
			st = got.State
			active := st.Active
			if s.Overlap == OverlapAllow {
				active = m.active
			}
			if !slices.Equal(got.Fire, fire) || got.Missed != missed || got.Skipped != skipped || active != m.active || !slices.Equal(st.Queue, m.queue) || got.Next != m.next(now) {
				t.Fatalf("%s at %d of %+v:\ngot  %+v\nwant fire %v, missed %d, skipped %d, active %v, queue %v, next %d", op, now, before, got, fire, missed, skipped, m.active, m.queue, m.next(now))
			}
			if st.Fired-before.Fired != int64(len(fire)) || st.Missed-before.Missed != missed || st.Skipped-before.Skipped != skipped || st.Last < before.Last {
				t.Fatalf("%s at %d: %+v became %+v", op, now, before, st)
			}
			for _, o := range got.Fire {
				if o.Trigger != "" {
					continue
				}
				if o.Nominal <= newest || o.Nominal > now && op == "decide" && !slices.Contains(before.Queue, o) {
					t.Fatalf("%v was fired at %d, after %d", o, now, newest)
				}
				newest = o.Nominal
			}
		}
	})
}

// TestCatchUp: what is due after 24 days without anyone, over a change of the clocks,
// is what the oracle says, for each policy.
func TestCatchUp(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	every := func(field, from, to, step int, e expression) expression {
		e.sets[field] = map[int]bool{}
		e.fill(field, from, to, step)
		return e
	}
	all := func() (e expression) {
		for n, b := range [6][2]int{{0, 0}, {0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}} {
			e.sets[n] = map[int]bool{}
			e.fill(n, b[0], b[1], 1)
			e.star[n] = n > 0
		}
		return e
	}
	daily := every(1, 30, 30, 1, every(2, 2, 2, 1, all()))
	daily.text = "30 2 * * *"
	often := every(1, 0, 59, 7, all())
	often.text, often.recurs = "*/7 * * * *", true
	hours := every(1, 15, 15, 1, every(2, 0, 3, 1, all()))
	hours.text = "15 0-3 * * *"
	for _, c := range []struct{ zone, from string }{
		{"Europe/Berlin", "2026-03-10T00:00:00Z"}, {"Europe/Berlin", "2026-10-10T00:00:00Z"}, {"America/New_York", "2026-10-20T13:00:00Z"},
		{"Australia/Lord_Howe", "2026-03-20T00:00:00Z"}, {"Africa/Cairo", "2026-04-10T00:00:00Z"}, {"Asia/Ho_Chi_Minh", "2026-03-10T00:00:00Z"}, {"Pacific/Apia", "2011-12-20T00:00:00Z"},
	} {
		for _, e := range []expression{daily, often, hours} {
			t.Run(c.zone+" "+c.from[:10]+" "+e.text, func(t *testing.T) {
				t.Parallel()
				start, err := time.Parse(time.RFC3339, c.from)
				if err != nil {
					t.Fatal(err)
				}
				zone, err := time.LoadLocation(c.zone)
				if err != nil {
					t.Fatal(err)
				}
				from, now := start.UnixMilli(), start.Add(24*24*time.Hour+1500*time.Millisecond).UnixMilli()
				oracle := e.fires(zone, from/1000-1, now/1000)
				for _, misfire := range []Misfire{MisfireSkip, MisfireOnce, MisfireAll} {
					d := Definition{Timing: Timing{Kind: Cron, Cron: e.text, Zone: c.zone}, Misfire: misfire, Overlap: OverlapAllow, Grace: 10 * time.Minute}
					if misfire == MisfireAll {
						d.Window = 15 * 24 * time.Hour
					}
					s := mustNew(t, d)
					st := s.Start(from)
					var got, want []int64
					for next := int64(0); next <= now; {
						d := s.Decide(st, now, 50)
						for _, o := range d.Fire {
							got = append(got, o.Nominal/1000)
						}
						st, next = d.State, d.Next
					}
					for n, at := range oracle {
						late := now - at*1000
						if misfire == MisfireAll && late <= d.Window.Milliseconds() || late <= d.Grace.Milliseconds() || misfire == MisfireOnce && n == len(oracle)-1 {
							want = append(want, at)
						}
					}
					if len(oracle) < 20 || !slices.Equal(got, want) || st.Missed != int64(len(oracle)-len(want)) {
						t.Errorf("%s: fired %v and missed %d, want %v of %d", misfire, shown(s.cron, got), st.Missed, shown(s.cron, want), len(oracle))
					}
				}
			})
		}
	}
}

// TestCatchUpOfSeconds: two million missed seconds are counted, not walked through.
func TestCatchUpOfSeconds(t *testing.T) {
	t.Parallel()
	s := mustNew(t, Definition{Timing: Timing{Kind: Cron, Cron: "* * * * * *", Zone: "Europe/Berlin"}, Misfire: MisfireSkip, Grace: 5 * time.Second, Overlap: OverlapAllow})
	from := time.Date(2026, 10, 10, 0, 0, 0, 0, time.UTC).UnixMilli()
	now := from + (24 * 24 * time.Hour).Milliseconds()
	d := s.Decide(s.Start(from), now, 100)
	if len(d.Fire) != 6 || d.Missed != 24*24*3600+1-6 || d.Fire[5].Nominal != now || d.Next != now+1000 {
		t.Errorf("%+v", d)
	}
}
