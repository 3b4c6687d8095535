package past

import (
	"cmp"
	"math"
	"slices"

	"fencepost/harness/record/history"
)

// Kinds and policies of schedules, as the history names them.
const (
	kindNow   = "now"
	kindAt    = "at"
	kindCron  = "cron"
	kindRate  = "fixed_rate"
	kindDelay = "fixed_delay"

	misfireOnce = "once"
	misfireAll  = "all"

	overlapAllow = "allow"
	overlapQueue = "queue"
)

// mostWaiting is how many occurrences of a schedule may wait.
const mostWaiting = 20

// What a form does not say is as it was when schedules had one kind only.
func kindOf(f *history.Schedule) string    { return cmp.Or(f.Kind, kindRate) }
func overlapOf(f *history.Schedule) string { return cmp.Or(f.Overlap, overlapAllow) }
func misfireOf(f *history.Schedule) string { return cmp.Or(f.Misfire, misfireAll) }

// patience is by how much a nominal time may be late and still fires, in ms.
func patience(f *history.Schedule) int64 {
	if misfireOf(f) == misfireAll {
		return f.WindowMS
	}
	return f.GraceMS
}

// sameTiming says whether two forms have the same nominal times.
func sameTiming(f, g *history.Schedule) bool {
	return kindOf(f) == kindOf(g) && f.AtMS == g.AtMS && f.UntilMS == g.UntilMS && f.EveryMS == g.EveryMS && f.Cron == g.Cron && f.Zone == g.Zone
}

// agree says whether two forms can be the same one, and fills in what the first does not say.
func agree(f, g *history.Schedule) bool {
	fits := true
	text := func(a *string, b string) {
		fits = fits && (*a == "" || b == "" || *a == b)
		*a = cmp.Or(*a, b)
	}
	number := func(a *int64, b int64) {
		fits = fits && (*a == 0 || b == 0 || *a == b)
		*a = cmp.Or(*a, b)
	}
	text(&f.Kind, g.Kind)
	text(&f.Cron, g.Cron)
	text(&f.Zone, g.Zone)
	text(&f.Overlap, g.Overlap)
	text(&f.Misfire, g.Misfire)
	text(&f.Form, g.Form)
	number(&f.AtMS, g.AtMS)
	number(&f.UntilMS, g.UntilMS)
	number(&f.EveryMS, g.EveryMS)
	number(&f.WindowMS, g.WindowMS)
	number(&f.GraceMS, g.GraceMS)
	return fits
}

// formOf is the form that is put, nil if it is not known which; asked is false if nobody
// asked for it. A version that does not say which form it puts can be followed only where all
// that were asked for agree.
func (s *Schedule) formOf(id string) (form *history.Schedule, asked bool) {
	unsaid := id == ""
	for _, f := range s.asked {
		if f.Form == id && id != "" {
			return f, true
		}
		unsaid = unsaid || f.Form == ""
	}
	if !unsaid {
		return nil, false
	}
	merged := *s.asked[0]
	for _, f := range s.asked[1:] {
		if !agree(&merged, f) {
			return nil, true
		}
	}
	return &merged, true
}

// exclusive: an occurrence begins when the one before it has ended.
func (s *Schedule) exclusive() bool { return overlapOf(s.spec) != overlapAllow }

// each calls yield with the schedule's nominal times after an instant, up to another, while
// yield wants more; busy says whether an occurrence of it has not ended.
func (s *Schedule) each(after, upTo int64, busy bool, yield func(t int64) bool) {
	if s.spec.UntilMS != 0 {
		upTo = min(upTo, s.spec.UntilMS-1)
	}
	first := cmp.Or(s.spec.AtMS, s.created)
	switch kindOf(s.spec) {
	case kindNow, kindAt:
		if first > after && first <= upTo {
			yield(first)
		}
	case kindCron:
		if c := s.cronOf(s.spec); c != nil {
			c.each(after, upTo, yield)
		}
	case kindDelay:
		t := max(first, s.created)
		if s.last >= t {
			t = max(s.ended, s.last) + s.spec.EveryMS
		}
		if !busy && t > after && t <= upTo {
			yield(t)
		}
	default:
		if s.spec.EveryMS <= 0 {
			return
		}
		t := first
		if after >= t {
			t += ((after-t)/s.spec.EveryMS + 1) * s.spec.EveryMS
		}
		for ; t <= upTo && yield(t); t += s.spec.EveryMS {
		}
	}
}

// cronOf is a form's expression; nil if it cannot be read, which the scheduler would refuse.
func (s *Schedule) cronOf(f *history.Schedule) *cron {
	key := f.Zone + " " + f.Cron
	if c, known := s.crons[key]; known {
		return c
	}
	c, err := newCron(f.Cron, cmp.Or(f.Zone, "UTC"))
	if err != nil {
		c = nil
	}
	if s.crons == nil {
		s.crons = map[string]*cron{}
	}
	s.crons[key] = c
	return c
}

// nth is the n-th nominal time after where the schedule stands, from 0, up to an instant; 0 if
// there are not so many.
func (s *Schedule) nth(n, upTo int64) (out int64) {
	s.each(s.last, upTo, s.busy(), func(t int64) bool {
		if n--; n < 0 {
			out = t
		}
		return n >= 0
	})
	return out
}

// decision is what a schedule has to do about its nominal times.
type decision struct {
	fire            []Occurrence
	all             int64 // nominal times
	missed, skipped int64
	void            int64 // occurrences that have a job already
	queue           []Occurrence
	active          Occurrence
}

// decide is what the schedule does when its owner's clock shows now, as far as it has decided:
// up to the end of its step. fired are the occurrences that it has fired.
func (s *Schedule) decide(now, upTo int64, fired []Occurrence) (d decision) {
	d.queue, d.active = slices.Clone(s.Queue), s.Active
	void := func(o Occurrence) bool { return s.twin(o, nil) != nil && !slices.Contains(fired, o) }
	fire := func(o Occurrence) {
		if void(o) {
			d.void++
			return
		}
		d.fire = append(d.fire, o)
		if s.exclusive() {
			d.active = o
		}
	}
	for len(d.queue) > 0 && d.active.none() && (len(d.fire) < len(fired) || void(d.queue[0])) {
		fire(d.queue[0])
		d.queue = d.queue[1:]
	}
	late, kept := s.lateBefore(now)
	s.each(s.last, upTo, !d.active.none(), func(t int64) bool {
		switch d.all++; {
		case t < late && t != kept:
			d.missed++
		case d.active.none():
			fire(Occurrence{Nominal: t})
		case overlapOf(s.spec) == overlapQueue && len(d.queue) < mostWaiting:
			d.queue = append(d.queue, Occurrence{Nominal: t})
		default:
			d.skipped++
		}
		return true
	})
	return d
}

// lateBefore is before which instant a nominal time is too late, and the one that fires all the
// same: the last one, if the policy makes up for all by one and none is in time.
func (s *Schedule) lateBefore(now int64) (late, kept int64) {
	if kindOf(s.spec) == kindDelay {
		return math.MinInt64, 0
	}
	late = now - patience(s.spec)
	if misfireOf(s.spec) != misfireOnce {
		return late, 0
	}
	inTime := false
	s.each(late-1, now, false, func(int64) bool {
		inTime = true
		return false
	})
	if !inTime {
		s.each(s.last, late-1, false, func(t int64) bool {
			kept = t
			return true
		})
	}
	return late, kept
}

// same says whether two forms are one.
func same(f, g *history.Schedule) bool {
	a, b := *f, *g
	return agree(&a, &b) && (f.Form == "" || g.Form == "" || f.Form == g.Form)
}
