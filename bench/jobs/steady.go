package jobs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"fencepost/bench"
	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/reports"
	"fencepost/reports/measure"
)

// bucket is the part of a load over time that is a point of its chart.
const bucket = 10 * time.Second

// drainLimit bounds the wait for what is open when an offered load ends.
const drainLimit = time.Minute

// load is what goes on over time.
type load func(context.Context, *process, *bench.Result) (reports.BenchSteady, error)

// then measures a load at a rate, and one at saturation.
func (s *Suite) then(ctx context.Context, r *bench.Result, p *bench.Progress) error {
	if s.Steady == 0 {
		return nil
	}
	for i, l := range []load{s.offered, s.saturated} {
		if err := s.carry(ctx, r, p, fmt.Sprintf("steady_%d", i+1), l); err != nil {
			return err
		}
	}
	return nil
}

// carry has a scheduler of its own carry a load.
func (s *Suite) carry(ctx context.Context, r *bench.Result, p *bench.Progress, queue string, l load) error {
	a := &arm{suite: s, Arm: s.arm(kindJobs, s.Shards[0]), stream: 1 << 20}
	pr, err := a.start(ctx, queue)
	if err != nil {
		return err
	}
	quiet := follow(p, pr.book)
	out, err := l(ctx, pr, r)
	quiet()
	if err := errors.Join(err, a.stop(pr)); err != nil && ctx.Err() == nil {
		return err
	}
	if a.miscounts != nil {
		r.Problem("%v", a.miscounts)
	}
	if ctx.Err() != nil {
		r.Problem("interrupted in the load over time")
		return nil
	}
	out.Shards, out.For, out.Bucket = s.Shards[0], s.Steady, bucket
	r.Steady = append(r.Steady, out)
	return nil
}

// follow prints a line a bucket until it is told to be quiet.
func follow(p *bench.Progress, b *book) (quiet func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		t := time.NewTicker(bucket)
		defer t.Stop()
		before := 0
		for {
			select {
			case <-stop:
				return
			case <-t.C:
				asked, ended := b.counts()
				p.Line("%s  %.0f jobs/s, %d open", b.queue, float64(ended-before)/bucket.Seconds(), asked-ended)
				before = ended
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}

// saturated keeps as many jobs open as an arm does.
func (s *Suite) saturated(ctx context.Context, p *process, _ *bench.Result) (reports.BenchSteady, error) {
	w := bench.Window{Arm: s.arm(kindJobs, s.Shards[0]), Lead: s.Lead, Length: s.Steady, Seed: s.Seed}
	sample, err := w.Loop(ctx, p)
	if err != nil {
		return reports.BenchSteady{}, err
	}
	out := reports.BenchSteady{ID: "saturation", Scenario: fmt.Sprintf("Saturation, %d jobs open", w.Arm.Threads), Done: sample.OK, LWTs: sample.Sent.LWTs}
	out.Buckets = p.book.buckets(sample.Started.Sub(p.book.begin), s.Steady)
	return out, nil
}

// maxOpenSeconds is how many seconds' jobs may be open before an offered load is given
// up: the scheduler is then so far behind that waiting shows nothing else.
const maxOpenSeconds = 60

// senders is how many enqueues are under way at a time when a load is offered: as many
// as a shard lets wait. What comes on top waits in the order in which it was meant to be
// asked for. As many as there are jobs would be a storm of refusals that leaves the machine
// to nothing else.
const senders = engine.DefaultMaxWaiting

// wish is a job that is to be enqueued.
type wish struct {
	j     job.Job
	acked bool
	doubt bool // an enqueue of it had no certain answer
}

// offered asks for jobs at a rate, whatever becomes of them. Every job is one that a
// client wants: when it is refused for the time being it is asked for again, and is
// late from the instant at which it was first meant to be asked for.
func (s *Suite) offered(ctx context.Context, p *process, r *bench.Result) (reports.BenchSteady, error) {
	out := reports.BenchSteady{ID: fmt.Sprintf("rate-%g", s.Rate), Scenario: fmt.Sprintf("%g jobs/s offered", s.Rate), Rate: s.Rate}
	first := p.traffic()
	begin := time.Now()
	asking, cancel := context.WithTimeout(ctx, s.Steady+drainLimit)
	defer cancel()
	var asked sync.WaitGroup
	var err error
	asked.Go(func() { err = s.offer(asking, p, r, begin, &out) })
	bench.Until(ctx, begin.Add(s.Steady))
	came, ended := p.book.counts()
	out.LWTs = p.traffic().Minus(first).LWTs
	out.Backlog = int64(came - ended)
	asked.Wait()
	if out.Drained = p.drain(asking); out.Drained >= 0 {
		out.Drained = max(time.Since(begin)-s.Steady, 0)
	}
	over := time.Now()
	out.Buckets = p.book.buckets(begin.Sub(p.book.begin), s.Steady)
	for _, b := range out.Buckets {
		out.Done += b.Done
	}
	return out, errors.Join(err, p.book.lateness(&out, begin.Sub(p.book.begin), over.Sub(p.book.begin)))
}

// insistPause is between two tries of an enqueue of which nobody knows what became of it; one
// that was refused is tried again when it was told to.
const insistPause = 50 * time.Millisecond

// offer asks for jobs until each is acknowledged or ctx ends. The same id makes it safe to
// ask again.
func (s *Suite) offer(ctx context.Context, p *process, r *bench.Result, begin time.Time, out *reports.BenchSteady) error {
	var mu sync.Mutex
	var all []*wish // by their numbers in the book
	at := func(n int) *wish {
		mu.Lock()
		defer mu.Unlock()
		return all[n]
	}
	offered, err := bench.Offer{
		Begin: begin, Length: s.Steady, Rate: s.Rate, Senders: senders,
		Stop: func() bool {
			asked, ended := p.book.counts()
			return float64(asked-ended) > maxOpenSeconds*s.Rate
		},
		Came: func(_ int, at time.Time) {
			_, j := p.book.ask(at)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, &wish{j: j})
		},
		Do: func(ctx context.Context, n int, _ time.Time) time.Duration {
			w := at(n)
			err := p.submit(ctx, w.j)
			if err == nil {
				w.acked = true
				p.book.replied(n, acked)
				return 0
			}
			w.doubt = w.doubt || store.OutcomeOf(err) != store.Fail
			if wait, busy := engine.RetryAfter(err); busy {
				return wait + rand.N(wait/2)
			}
			return insistPause
		},
	}.Run(ctx)
	for n, w := range all {
		if !w.acked && !w.doubt {
			p.book.replied(n, refused)
		}
	}
	out.Left, out.Retried = int64(offered.Left), int64(offered.Retried)
	if offered.GivenUp {
		r.Problem("%g jobs/s offered: given up after %d jobs, with those of %d s open: the scheduler cannot keep up", s.Rate, offered.Wishes, maxOpenSeconds)
	}
	r.Note("%g jobs/s offered: jobs were asked for p50 %s, p99 %s after they were meant to be, at most %d enqueues were under way at a time, refused ones were asked for again when they were told to (%d times), and %d could not be asked for at all; lateness counts from when jobs were meant to be asked for", s.Rate,
		measure.FormatDuration(measure.Quantile(offered.Lag, 50)), measure.FormatDuration(measure.Quantile(offered.Lag, 99)), senders, offered.Retried, offered.Left)
	return err
}

// drain waits until all jobs are completed and returns how long that took; -1 if ctx
// ended before.
func (p *process) drain(ctx context.Context) time.Duration {
	begin := time.Now()
	for {
		if asked, ended := p.book.counts(); ended >= asked {
			return time.Since(begin)
		}
		if clock.Go().Sleep(ctx, 10*time.Millisecond) != nil {
			return -1
		}
	}
}

// buckets count the jobs that were completed from an instant on.
func (b *book) buckets(from, length time.Duration) []reports.BenchBucket {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]reports.BenchBucket, (length+bucket-1)/bucket)
	for i := range out {
		out[i].Seconds = min(bucket, length-time.Duration(i)*bucket).Seconds()
	}
	for _, e := range b.entries {
		if at := e.ended - from; e.ended > 0 && at >= 0 && at < length {
			out[at/bucket].Done++
		}
	}
	return out
}

// lateness fills in how late runs began and jobs were completed. What has not happened
// by the end is as late as that, at least.
func (b *book) lateness(out *reports.BenchSteady, from, over time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	late, ended := measure.NewHistogram(), measure.NewHistogram()
	each := make([]*hdrhistogram.Histogram, len(out.Buckets))
	for i := range each {
		each[i] = measure.NewHistogram()
	}
	orOver := func(at time.Duration) time.Duration {
		if at == 0 {
			return over
		}
		return at
	}
	for _, e := range b.entries {
		d := orOver(e.started) - e.asked
		for _, h := range []*hdrhistogram.Histogram{late, each[min(int((e.asked-from)/bucket), len(each)-1)]} {
			if err := measure.Record(h, d); err != nil {
				return err
			}
		}
		if err := measure.Record(ended, orOver(e.ended)-e.asked); err != nil {
			return err
		}
	}
	for i, h := range each {
		if h.TotalCount() > 0 {
			us := func(percent float64) int64 { return h.ValueAtQuantile(percent) }
			out.Buckets[i].LateP50, out.Buckets[i].LateP99, out.Buckets[i].LateMax = us(50), us(99), us(100)
		}
	}
	var err error
	if out.Late, err = reports.EncodeHistogram(late); err != nil {
		return err
	}
	out.Ended, err = reports.EncodeHistogram(ended)
	return err
}
