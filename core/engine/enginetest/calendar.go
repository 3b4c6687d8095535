package enginetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/store/sim"
)

// Span is how long one of those runs is.
const Span = 24 * 24 * time.Hour

// CalendarFrom are the days on which such runs begin, so that clocks are changed in them.
var CalendarFrom = []string{
	"2026-03-27", // Berlin and Cairo forward, Lord Howe and Chatham back
	"2026-10-10", // Berlin and New York back
	"2026-02-28", // New York forward
	"2026-09-20", // Lord Howe and Chatham forward
	"2011-12-15", // Apia loses a day
}

var calendarZones = []string{"Asia/Ho_Chi_Minh", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo",
	"Pacific/Chatham", "Pacific/Apia"}

// DrawDays draws a run of many days: long leases, so that a day is few batches,
// and crashes, stops, pauses, cuts, outages and clocks that are set, all over it.
func DrawDays(seed uint64, span time.Duration) Config {
	r := rand.New(rand.NewPCG(seed, 44))
	ttl := time.Duration(10+r.IntN(15)) * time.Minute
	epoch, _ := time.Parse(time.DateOnly, CalendarFrom[seed%uint64(len(CalendarFrom))]) // of the list above
	cfg := Config{
		seed: seed, nodes: 3, shards: 2, slots: 100, maxOps: 60, maxLoaded: 500, page: 100, maxBytes: 60 << 10,
		ttl: ttl, drift: 0.01, rates: []float64{1, 0.99, 1.01}, horizon: 2 * ttl, duration: span,
		skew: []time.Duration{0, 40 * time.Second, -70 * time.Second}, retry: job.Exponential(ttl/8, 2, ttl),
		crashes: 4, clocksHeal: true, epoch: epoch, days: 12 + r.IntN(4), zones: calendarZones,
	}
	cfg.dedupe = 4*ttl + 7*time.Hour // longer than requests are late, and clocks apart
	cfg.faults = sim.Faults{Latency: 20 * time.Millisecond, LoseRequest: 0.01, LoseReply: 0.01, Late: 0.005, LateBy: 2 * ttl,
		StaleRead: 0.05}
	add := func(n int, kind string, length func() time.Duration) {
		for range max(n*int(span/time.Hour)/int(Span/time.Hour), 1) {
			cfg.events = append(cfg.events, event{at: time.Duration(r.Int64N(int64(span))), node: r.IntN(cfg.nodes), kind: kind, length: length()})
		}
	}
	upTo := func(d time.Duration) func() time.Duration {
		return func() time.Duration { return time.Duration(r.Int64N(int64(d))) }
	}
	add(25, "crash", upTo(1))
	add(10, "stop", upTo(1))
	add(12, "pause", upTo(6*ttl))
	add(12, "cut", upTo(6*ttl))
	add(4, "outage", upTo(30*time.Hour))
	add(8, "clock", func() time.Duration { return time.Duration(r.IntN(41)-20) * time.Minute })
	add(8, "clock", func() time.Duration { return 0 })
	add(6, "suspend", upTo(4*ttl))
	add(4, "clock", func() time.Duration {
		return time.Duration(60+r.IntN(120)) * time.Minute * time.Duration(1-2*r.IntN(2))
	})
	return cfg
}

// calendarRule is a cron expression and what it means, made together: the oracle does not
// read expressions.
type calendarRule struct {
	text         string
	second       int64
	minute, hour func(int) bool
	day          func(time.Time) bool
	// spaced: it speaks of spacing, so it fires whenever the clocks show a time that it
	// names; else once for each, when they show it or a later one for the first time.
	spaced bool
}

func drawRule(r *rand.Rand) calendarRule {
	always, everyDay := func(int) bool { return true }, func(time.Time) bool { return true }
	is := func(list ...int) func(int) bool { return func(v int) bool { return slices.Contains(list, v) } }
	each := func(n int) func(int) bool { return func(v int) bool { return v%n == 0 } }
	m, h, s := r.IntN(60), r.IntN(5), r.IntN(60) // most clocks are changed at night
	switch r.IntN(9) {
	case 0:
		n := []int{15, 20, 30}[r.IntN(3)]
		return calendarRule{fmt.Sprintf("*/%d * * * *", n), 0, each(n), always, everyDay, true}
	case 1:
		return calendarRule{fmt.Sprintf("%d * * * *", m), 0, is(m), always, everyDay, true}
	case 2:
		return calendarRule{fmt.Sprintf("%d %d */2 * * *", s, m), int64(s), is(m), each(2), everyDay, true}
	case 3:
		return calendarRule{fmt.Sprintf("%d %d %d * * *", s, m, h), int64(s), is(m), is(h), everyDay, false}
	case 4:
		return calendarRule{"0,30 1,2,3 * * *", 0, is(0, 30), is(1, 2, 3), everyDay, false}
	case 5:
		return calendarRule{fmt.Sprintf("%d %d * * mon-fri", m, h), 0, is(m), is(h),
			func(t time.Time) bool { return t.Weekday() != time.Sunday && t.Weekday() != time.Saturday }, false}
	case 6:
		return calendarRule{fmt.Sprintf("%d %d 1,15 * sun", m, h), 0, is(m), is(h), func(t time.Time) bool {
			return t.Day() == 1 || t.Day() == 15 || t.Weekday() == time.Sunday
		}, false}
	case 7:
		return calendarRule{fmt.Sprintf("%d 0-23 * * *", m), 0, is(m), always, everyDay, true}
	}
	return calendarRule{"@daily", 0, is(0), is(0), everyDay, false}
}

// times is the oracle: it looks at the zone's clock in each minute of (after, upTo], in ms.
func (c calendarRule) times(zone *time.Location, after, upTo int64) (out []int64) {
	shows := func(t int64) int64 { // minutes, as if the clock showed UTC
		at := time.Unix(t, 0).In(zone)
		_, offset := at.Zone()
		return (t + int64(offset)) / 60
	}
	names := func(minute int64) bool {
		at := time.Unix(minute*60, 0).UTC()
		return c.minute(at.Minute()) && c.hour(at.Hour()) && c.day(at)
	}
	begin := (after/60_000 - 26*60) * 60 // clocks were never turned back by more
	last := shows(begin - 60)
	for t := begin; t*1000 <= upTo; t += 60 {
		now := shows(t)
		var fires []int64
		switch {
		case c.spaced && names(now):
			fires = append(fires, t+c.second)
		case !c.spaced:
			for ; last < now; last++ {
				switch shown := last + 1; {
				case !names(shown):
				case shown < now: // it lies in a gap
					fires = append(fires, t)
				default:
					fires = append(fires, t+c.second)
				}
			}
		}
		for _, f := range slices.Compact(fires) {
			if f*1000 > after && f*1000 <= upTo {
				out = append(out, f*1000)
			}
		}
	}
	return out
}

// calendar holds the nominal times of a run's cron schedules.
type calendar struct {
	rules map[string]calendarRule // by expression
	mu    sync.Mutex
	lists map[string][]int64 // by expression and zone
}

// in are the nominal times of an expression in (after, upTo].
func (c *calendar) in(w *World, d schedule.Definition, after, upTo int64) []int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := d.Cron + " in " + d.Zone
	list, ok := c.lists[name]
	if !ok {
		zone, err := time.LoadLocation(d.Zone)
		if err != nil {
			w.violate("zone", "%s: %v", d.Zone, err)
			return nil
		}
		from := w.cfg.epoch.Add(-24 * time.Hour)
		list = c.rules[d.Cron].times(zone, from.UnixMilli(), from.Add(w.cfg.duration+Span).UnixMilli())
		c.lists[name] = list
	}
	lo := sort.Search(len(list), func(i int) bool { return list[i] > after })
	hi := sort.Search(len(list), func(i int) bool { return list[i] > upTo })
	return slices.DeleteFunc(slices.Clone(list[lo:max(lo, hi)]), func(t int64) bool { return !d.Until.IsZero() && t >= d.Until.UnixMilli() })
}

// makeCalendar draws the schedules of a run of many days. They are put at its beginning,
// and none of them fires after its end.
func (w *World) makeCalendar() {
	r := rand.New(rand.NewPCG(w.cfg.seed, 12))
	w.calendar = &calendar{rules: map[string]calendarRule{}, lists: map[string][]int64{}}
	for n := range w.cfg.days {
		s := &simSchedule{queue: "q", key: fmt.Sprint("s", n), runs: map[job.ID][]*simRun{}}
		d := w.drawDefinition(s, r) // its job, for one
		switch n % 7 {
		case 0:
			d.Timing = schedule.Timing{Kind: schedule.FixedRate, Every: time.Duration(1200+r.IntN(6000)) * time.Second}
		case 1:
			d.Timing = schedule.Timing{Kind: schedule.FixedDelay, Every: time.Duration(1200+r.IntN(6000)) * time.Second}
		default:
			rule := drawRule(r)
			w.calendar.rules[rule.text] = rule
			d.Timing = schedule.Timing{Kind: schedule.Cron, Cron: rule.text, Zone: w.cfg.zones[r.IntN(len(w.cfg.zones))]}
		}
		d.Until = w.cfg.epoch.Add(w.cfg.duration)
		d.Misfire = []schedule.Misfire{schedule.MisfireSkip, schedule.MisfireOnce, schedule.MisfireAll}[r.IntN(3)]
		d.Overlap = []schedule.Overlap{schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapQueue}[r.IntN(3)]
		if d.Kind == schedule.FixedDelay {
			d.Misfire, d.Overlap = schedule.MisfireOnce, []schedule.Overlap{schedule.OverlapSkip, schedule.OverlapQueue}[r.IntN(2)]
		}
		d.Grace, d.Window = time.Duration(1+r.IntN(6))*w.cfg.ttl, 0
		if d.Misfire == schedule.MisfireAll {
			d.Window = d.Grace + time.Duration(r.IntN(20))*time.Hour
		}
		if n%3 > 0 {
			d.Job.Then = nil
		}
		s.defs = []schedule.Definition{d}
		if w.cfg.twist != nil {
			w.cfg.twist(&d)
		}
		s.plan = []simOrder{{time.Minute, engine.ScheduleCommand{Verb: engine.PutSchedule, Queue: s.queue, Key: s.key, Definition: &d}}}
		w.schedules = append(w.schedules, s)
	}
	w.upsetCalendar()
}

func (w *World) isDown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Before(w.downUntil)
}

// outage ends all processes, and lets none start for some time.
func (w *World) outage(length time.Duration) {
	w.count("outage")
	w.mu.Lock()
	w.downUntil = time.Now().Add(length)
	w.mu.Unlock()
	for n := range w.cfg.nodes {
		if p := w.at(n); !p.isCrashed() {
			p.crash()
		}
	}
}
