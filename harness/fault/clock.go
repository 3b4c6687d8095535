package fault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/harness/target/fleet"
)

func init() {
	register(Kind{
		Name: "clock", On: Worker, Family: FamilyClock,
		About: "set the wall clock of workers wrong by an offset, or to shortly before the clocks of a time zone change, or the rate of their lease clock",
		Proof: "The offset: in rows that each worker wrote meanwhile (the expiry of its locks, the times of its runs), " +
			"against the time at which the nodes took them, within 500 ms or half of the offset. " +
			"The rate: the harness times ticks that the worker sends by the clock that its leases go by; " +
			"the least late ones run wrong by 0.8 to 1.25 of the rate",
		Params: []string{"offset", "rate_ppm", "zone", "change"},
		Needs:  Needs{Clocks: true},
		Takes:  history.TakesNothing,
		Swarm:  &Draw{Place: 10, Params: drawClock},
		New:    newClockFault,
	})
}

// maxRatePPM keeps a wrong lease clock going forward, and no test from being absurd.
const maxRatePPM = 900_000

// clockFault makes workers' clocks wrong.
type clockFault struct {
	to history.Clock
	// zone is the time zone before whose change-th next change of clocks the wall clock is set.
	zone   *time.Location
	change int64
}

// beforeChange is how long before a zone's clocks change the wall clock is set: long enough for
// schedules to fire before it.
const beforeChange = 6 * time.Second

// at is how the clocks are set at an instant. A zone has no such change any more if ok is false.
func (f clockFault) at(now time.Time) (to history.Clock, ok bool) {
	to = f.to
	if f.zone == nil {
		return to, true
	}
	end := now.Add(beforeChange)
	for range f.change {
		if end, ok = nextChange(f.zone, end); !ok {
			return to, false
		}
	}
	to.OffsetMS = end.Add(-beforeChange).Sub(now).Milliseconds()
	return to, true
}

// nextChange is when the clocks of a zone are set next. Some databases of zones have bounds at
// which nothing changes.
func nextChange(zone *time.Location, after time.Time) (at time.Time, ok bool) {
	for {
		_, end := after.In(zone).ZoneBounds()
		if end.IsZero() {
			return end, false
		}
		_, was := end.Add(-time.Second).Zone()
		if _, is := end.Zone(); is != was {
			return end, true
		}
		after = end
	}
}

func newClockFault(s Spec) (Fault, error) {
	switch {
	case s.Offset == 0 && s.RatePPM == 0 && s.Zone == "":
		return nil, errors.New("offset, zone or rate_ppm is missing")
	case s.Offset != 0 && s.Zone != "":
		return nil, errors.New("offset and zone: only one of them says what the wall clock shows")
	case s.Change < 0 || s.Change > 0 && s.Zone == "":
		return nil, fmt.Errorf("change %d: which of the next changes of a zone's clocks, from 1", s.Change)
	case s.RatePPM > maxRatePPM || s.RatePPM < -maxRatePPM:
		return nil, fmt.Errorf("rate_ppm %d is not within ±%d", s.RatePPM, maxRatePPM)
	}
	f := clockFault{to: history.Clock{OffsetMS: s.Offset.Milliseconds(), RatePPM: s.RatePPM}, change: max(s.Change, 1)}
	if s.Zone == "" {
		return f, nil
	}
	var err error
	if f.zone, err = time.LoadLocation(s.Zone); err != nil {
		return nil, fmt.Errorf("zone %q: want an IANA name such as Europe/Berlin", s.Zone)
	}
	if _, ok := f.at(time.Now()); !ok {
		return nil, fmt.Errorf("zone %s: its clocks change no more", s.Zone)
	}
	return f, nil
}

func (f clockFault) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	workers, err := env.workers(targets)
	if err != nil {
		return nil, err
	}
	to, ok := f.at(time.Now())
	if !ok {
		return nil, fmt.Errorf("the clocks of %s change no more", f.zone)
	}
	a := &activeClock{env: env, to: to, workers: workers}
	for _, w := range workers {
		if _, err := env.clock(ctx, w, to); err != nil {
			return nil, errors.Join(err, a.Heal(ctx))
		}
	}
	a.lives, a.since = livesOf(workers), time.Now()
	if to.RatePPM != 0 {
		err = tickAll(workers, rateTick)
	}
	if to.OffsetMS != 0 {
		a.stamps = watchStamps(env)
	}
	if err != nil {
		return nil, errors.Join(err, a.Heal(ctx))
	}
	return a, nil
}

// clock sets the clocks of a worker, which says what they then show.
func (e *Env) clock(ctx context.Context, w *fleet.Worker, to history.Clock) (says control.Reading, err error) {
	err = e.do(func() error {
		says, err = w.Clock(ctx, &to)
		return err
	})
	return says, err
}

func livesOf(workers []*fleet.Worker) []string {
	var out []string
	for _, w := range workers {
		out = append(out, w.Life())
	}
	return out
}

type activeClock struct {
	env     *Env
	to      history.Clock
	workers []*fleet.Worker
	lives   []string
	since   time.Time
	stamps  *stamps // nil: the wall clock is right
}

// Probe looks at what the workers have written and sent by their clocks.
func (a *activeClock) Probe(ctx context.Context) Evidence {
	ev := Evidence{Proven: true}
	for i, w := range a.workers {
		if a.to.OffsetMS != 0 {
			a.offset(ctx, &ev, a.lives[i])
		}
		if a.to.RatePPM != 0 {
			a.rate(&ev, w, a.lives[i])
		}
	}
	return ev
}

// Stamp is a time that a worker wrote into a row by its own wall clock, and when a node
// took it, by the node's.
type Stamp struct {
	Life          string
	Wall, Written time.Time
}

// wrong is by how much the clock that made the stamp was ahead. The way to the node makes
// it seem less than it is.
func (s Stamp) wrong() time.Duration { return s.Wall.Sub(s.Written) }

// stampTolerance is by how much the best of a worker's stamps may miss the offset: what a
// write takes on a busy machine, and what nodes' clocks may differ from each other.
const stampTolerance = 500 * time.Millisecond

// offset adds how wrong a worker's wall clock is by the rows that it wrote.
func (a *activeClock) offset(ctx context.Context, ev *Evidence, life string) {
	want := time.Duration(a.to.OffsetMS) * time.Millisecond
	tolerance := min(stampTolerance, want.Abs()/2)
	best, n, err := a.stamps.await(ctx, life, want, tolerance)
	switch {
	case n == 0 && err != nil:
		ev.also(false, "%s: the rows that it wrote cannot be read (%s)", life, firstLine(err))
	case n == 0:
		ev.also(false, "%s: it has written no row since that would show its wall clock", life)
	default:
		ev.also((best-want).Abs() <= tolerance, "%s: by %d rows that it wrote, against the nodes' time of taking them, its wall clock is off by %s (%s ± %s is meant)",
			life, n, best.Round(time.Millisecond), want, tolerance)
	}
}

// rateTick is how far apart a worker's ticks are by its own clock.
const rateTick = 20 * time.Millisecond

// tickAll has the workers tick.
func tickAll(workers []*fleet.Worker, every time.Duration) error {
	var errs []error
	for _, w := range workers {
		errs = append(errs, w.Metronome(every))
	}
	return errors.Join(errs...)
}

// rate adds how wrong the rate of a worker's lease clock is, by the times at which its
// ticks came here.
func (a *activeClock) rate(ev *Evidence, w *fleet.Worker, life string) {
	ticks := slices.DeleteFunc(w.Ticks(), func(t fleet.Tick) bool { return t.At.Before(a.since) })
	ppm, ok := ratePPM(ticks, rateTick)
	if !ok {
		ev.also(false, "%s: %d ticks of its lease clock came, too few to time it by", life, len(ticks))
		return
	}
	part := ppm / float64(a.to.RatePPM)
	ev.also(part > 0.8 && part < 1.25, "%s: its lease clock runs %+.0f ppm wrong by %d ticks in %.1f s (%+d ppm is meant)",
		life, ppm, len(ticks), ticks[len(ticks)-1].At.Sub(ticks[0].At).Seconds(), a.to.RatePPM)
}

// ratePPM is how many millionths the clock that made the ticks runs fast. A tick can come
// late and never early, so of the first third of them and of the last the least late one
// counts.
func ratePPM(ticks []fleet.Tick, every time.Duration) (ppm float64, ok bool) {
	third := len(ticks) / 3
	if third < 3 {
		return 0, false
	}
	late := func(t fleet.Tick) time.Duration { return t.At.Sub(ticks[0].At) - time.Duration(t.N)*every }
	earliest := func(of []fleet.Tick) fleet.Tick {
		return slices.MinFunc(of, func(a, b fleet.Tick) int { return cmp.Compare(late(a), late(b)) })
	}
	from, to := earliest(ticks[:third]), earliest(ticks[len(ticks)-third:])
	took := to.At.Sub(from.At)
	if took <= 0 {
		return 0, false
	}
	return (float64(time.Duration(to.N-from.N)*every)/float64(took) - 1) * 1e6, true
}

// Heal sets the clocks right; a life that ended meanwhile took its clock along.
func (a *activeClock) Heal(ctx context.Context) error {
	if a.stamps != nil {
		a.stamps.stop()
	}
	var errs []error
	for _, w := range a.workers {
		if w.PID() == 0 {
			continue
		}
		_, err := a.env.clock(ctx, w, history.Clock{})
		errs = append(errs, err)
		if a.to.RatePPM != 0 {
			errs = append(errs, w.Metronome(0))
		}
	}
	return errors.Join(errs...)
}

func drawClock(rng *rand.Rand, s *Spec) {
	s.Offset = time.Duration(rng.IntN(1200)-600) * time.Second
	s.RatePPM = int64(rng.IntN(16_000) - 8_000) // within the declared bound of 1 %
	if s.RatePPM == 0 {
		s.RatePPM = 8_000
	}
}

// stampsEvery is how often rows are read that show workers' wall clocks.
const stampsEvery = 250 * time.Millisecond

// stamps watches what workers write by their wall clocks. Rows of locks show only their
// current holder.
type stamps struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	seen map[Stamp]bool
	err  error         // of the last look
	news chan struct{} // closed and made again with each look
}

func watchStamps(env *Env) *stamps {
	ctx, cancel := context.WithCancel(context.Background())
	s := &stamps{cancel: cancel, done: make(chan struct{}), seen: map[Stamp]bool{}, news: make(chan struct{})}
	go s.run(ctx, env, time.Now())
	return s
}

func (s *stamps) run(ctx context.Context, env *Env, since time.Time) {
	defer close(s.done)
	tick := time.NewTicker(stampsEvery)
	defer tick.Stop()
	for {
		all, err := env.Stamps(ctx)
		s.mu.Lock()
		s.err = err
		for _, st := range all {
			if !st.Written.Before(since) {
				s.seen[st] = true
			}
		}
		close(s.news)
		s.news = make(chan struct{})
		s.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *stamps) stop() {
	s.cancel()
	<-s.done
}

// best is the stamp of a life that comes closest to an offset, and how many there are.
func (s *stamps) best(life string, want time.Duration) (best time.Duration, n int) {
	for st := range s.seen {
		if st.Life != life {
			continue
		}
		if w := st.wrong(); n == 0 || (w-want).Abs() < (best-want).Abs() {
			best = w
		}
		n++
	}
	return best, n
}

// await waits until a stamp of a life is as wrong as it is meant to be, or ctx is over.
func (s *stamps) await(ctx context.Context, life string, want, tolerance time.Duration) (best time.Duration, n int, err error) {
	for {
		s.mu.Lock()
		best, n = s.best(life, want)
		err, news := s.err, s.news
		s.mu.Unlock()
		if n > 0 && (best-want).Abs() <= tolerance {
			return best, n, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return best, n, err
		}
	}
}
