package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/scheduler"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const shards = 4

// process is a scheduler with a listener, and how its Run ended.
type process struct {
	*scheduler.Scheduler
	stop context.CancelFunc
	end  chan error
}

// start runs a scheduler that prefers the shards whose numbers are 0 or 1 modulo 2,
// and tells ran of each job.
func start(t *testing.T, s *sim.Store, name string, prefers int, ran chan<- string, change ...func(*scheduler.Options)) *process {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	session := s.Connect(name, 1)
	o := scheduler.Options{
		Shards: session, Runs: session, Listener: l,
		Handlers: map[string]worker.Handler{"k": func(_ context.Context, k *worker.Task) error {
			ran <- fmt.Sprintf("%s by %s", k.Run.Job.Key, name)
			return nil
		}},
		Engine: engine.Options{
			Name: name, Addr: l.Addr().String(), Queues: []engine.Queue{{Name: "q", Shards: shards}},
			Ownership: engine.Ownership{Rank: func(id store.ShardID) int { return (id.Shard + prefers) % 2 * 8 }},
			Reports:   engine.Reports{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))},
		},
	}
	for _, c := range change {
		c(&o)
	}
	sch, err := scheduler.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p := &process{Scheduler: sch, stop: cancel, end: make(chan error, 1)}
	go func() { p.end <- sch.Run(ctx) }()
	return p
}

// TestScheduleByWhoever: a command on a schedule is carried out by whoever owns its
// shard, whoever is asked, and its jobs run.
func TestScheduleByWhoever(t *testing.T) {
	t.Parallel()
	s := sim.New()
	ran := make(chan string, 100)
	ps := []*process{start(t, s, "a", 0, ran), start(t, s, "b", 1, ran)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	do := func(p *process, c engine.ScheduleCommand) engine.Receipt {
		t.Helper()
		for {
			rec, err := p.Schedule(ctx, c)
			if err == nil {
				return rec
			}
			if !errors.Is(err, engine.ErrNotOwner) || ctx.Err() != nil { // as long as nobody owns the shard
				t.Fatalf("%s: %v", c.Verb, err)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	for n := range 8 {
		d := schedule.Definition{Queue: "q", Key: fmt.Sprint("s", n), Timing: schedule.Timing{Kind: schedule.Now}, Job: job.Job{Kind: "k"}}
		for m, p := range ps {
			if rec := do(p, engine.ScheduleCommand{Verb: engine.PutSchedule, Definition: &d}); rec.Duplicate != (m > 0) || rec.ID != job.ScheduleID("q", d.Key, shards) {
				t.Errorf("%s by %d: %+v", d.Key, m, rec)
			}
		}
	}
	seen := map[string]bool{}
	for range 8 {
		select {
		case r := <-ran:
			key, _, _ := strings.Cut(r, "@")
			if seen[key] {
				t.Errorf("%s fires twice", key)
			}
			seen[key] = true
		case <-ctx.Done():
			t.Fatalf("ran: %v", seen)
		}
	}
	bad := engine.ScheduleCommand{Verb: engine.RemoveSchedule, Queue: "other", Key: "s"}
	if _, err := ps[0].Schedule(ctx, bad); !errors.As(err, new(*schedule.InvalidError)) {
		t.Errorf("a queue that nobody has: %v", err)
	}
	for _, p := range ps {
		p.stop()
		if err := <-p.end; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// TestTwoSchedulers: whoever is asked, a job runs once, by whoever owns its shard; and
// who stops gives its shards away.
func TestTwoSchedulers(t *testing.T) {
	t.Parallel()
	s := sim.New()
	ran := make(chan string, 100)
	ps := []*process{start(t, s, "a", 0, ran), start(t, s, "b", 1, ran)}
	const jobs = 20
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range jobs {
		key := fmt.Sprint("job ", i)
		j := job.Job{ID: job.KeyedID("q", key, shards), Queue: "q", Kind: "k", Key: key}
		inbox := false
		for n, p := range ps {
			// Asked twice: the second one finds it, unless an inbox has it.
			rec, err := p.Submit(ctx, j)
			inbox = inbox || rec.Inbox
			if err != nil || rec.Duplicate != (n > 0) && !inbox {
				t.Fatalf("Submit %d of %s: %+v, %v", n, key, rec, err)
			}
		}
	}
	for i := range shards {
		if id := (store.ShardID{Queue: "q", Shard: i}); ps[0].Owns(id) && ps[1].Owns(id) {
			t.Errorf("both own shard %d", i)
		}
	}
	seen := map[string]bool{}
	by := map[string]int{}
	for range jobs {
		select {
		case r := <-ran:
			var n int
			var who string
			if _, err := fmt.Sscanf(r, "job %d by %s", &n, &who); err != nil || seen[fmt.Sprint(n)] {
				t.Fatalf("%q: %v, or twice", r, err)
			}
			seen[fmt.Sprint(n)] = true
			by[who]++
		case <-ctx.Done():
			t.Fatalf("%d of %d jobs ran", len(seen), jobs)
		}
	}
	for _, p := range ps {
		p.stop()
		if err := <-p.end; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	if n := ps[0].RunStats().Written + ps[1].RunStats().Written; n != jobs {
		t.Errorf("the history has %d runs", n)
	}
	for i := range shards {
		if id := (store.ShardID{Queue: "q", Shard: i}); ps[0].Owns(id) || ps[1].Owns(id) {
			t.Errorf("a process that has stopped owns shard %d", i)
		}
		if h, _ := s.ShardRows(store.ShardID{Queue: "q", Shard: i}); h.Owner != "" {
			t.Errorf("shard %d is still %s's", i, h.Owner)
		}
	}
	if len(ran) > 0 {
		t.Errorf("%q ran twice", <-ran)
	}
	t.Logf("by whom: %v", by)
}

// TestSecrets: with one secret they hand jobs on to each other, with two they use the
// inboxes; in either case every job runs.
func TestSecrets(t *testing.T) {
	t.Parallel()
	for name, secrets := range map[string][]string{"one": {"0123456789abcdef", "0123456789abcdef"}, "two": {"0123456789abcdef", "fedcba9876543210"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, ran := sim.New(), make(chan string, 100)
			var ps []*process
			for n, secret := range secrets {
				ps = append(ps, start(t, s, fmt.Sprint(name, n), n, ran, func(o *scheduler.Options) { o.Secret = secret }))
			}
			inbox, forwarded := 0, 0
			// With one secret, too, those of the beginning go by inboxes, as long as no owner
			// is known. Each of them waits for its owner's next look at that.
			shown := func() bool { return name == "one" && forwarded > 0 || name == "two" && inbox == 3 }
			for i := 0; i < 400 && !shown(); i++ {
				key := fmt.Sprint("job ", i)
				rec, err := ps[i%2].Submit(t.Context(), job.Job{ID: job.KeyedID("q", key, shards), Queue: "q", Kind: "k", Key: key})
				if err != nil {
					t.Fatal(err)
				}
				by := <-ran
				switch {
				case rec.Inbox:
					inbox++
				case by != fmt.Sprintf("%s by %s%d", key, name, i%2):
					forwarded++
				}
			}
			if !shown() || name == "two" && forwarded > 0 {
				t.Errorf("%d jobs were handed on, %d went by an inbox", forwarded, inbox)
			}
			for _, p := range ps {
				p.stop()
				if err := <-p.end; err != nil {
					t.Error(err)
				}
			}
		})
	}
	if _, err := scheduler.New(scheduler.Options{Secret: "short"}); err == nil {
		t.Error("a short secret was taken")
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	if _, err := scheduler.New(scheduler.Options{}); err == nil {
		t.Error("a scheduler without a name was made")
	}
	p := start(t, sim.New(), "a", 0, nil)
	if _, err := p.Submit(t.Context(), job.Job{Queue: "other"}); !errors.As(err, new(*job.InvalidError)) {
		t.Errorf("a queue that is not its own: %v", err)
	}
	p.stop()
	<-p.end // it may have had no time to make its queue
}

// TestCommandsByWhoever: a job is cancelled and redriven by whoever owns its shard,
// whoever is asked.
func TestCommandsByWhoever(t *testing.T) {
	t.Parallel()
	s, ran := sim.New(), make(chan string, 100)
	broken := func(o *scheduler.Options) {
		o.Handlers["broken"] = func(_ context.Context, k *worker.Task) error {
			ran <- k.Run.Job.Key
			return errors.New("on purpose")
		}
	}
	ps := []*process{start(t, s, "a", 0, ran, broken), start(t, s, "b", 1, ran, broken)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	do := func(f func() error) {
		t.Helper()
		for {
			err := f()
			var state *engine.StateError
			// As long as nobody owns the shard, or the run has not ended.
			wait := errors.Is(err, engine.ErrNotOwner) || errors.Is(err, engine.ErrUnknownJob) || errors.As(err, &state) && state.State == job.Running
			if err == nil {
				return
			}
			if !wait || ctx.Err() != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	for i := range 6 {
		p, other := ps[i%2], ps[(i+1)%2]
		later := job.Job{Queue: "q", Kind: "k", Key: fmt.Sprint("later", i), Due: time.Now().Add(time.Hour).Truncate(time.Millisecond)}
		later.ID = job.KeyedID("q", later.Key, shards)
		dead := job.Job{Queue: "q", Kind: "broken", Key: fmt.Sprint("dead", i), MaxAttempts: 1}
		dead.ID = job.KeyedID("q", dead.Key, shards)
		waits := later
		waits.Key = fmt.Sprint("waits", i)
		waits.ID = job.KeyedID("q", waits.Key, shards)
		for _, j := range []job.Job{later, dead, waits} {
			if _, err := p.Submit(ctx, j); err != nil {
				t.Fatal(err)
			}
		}
		do(func() error { return other.Cancel(ctx, "q", later.ID) })
		<-ran
		do(func() error { return other.Redrive(ctx, "q", dead.ID) })
		if got := <-ran; got != dead.Key {
			t.Errorf("%q ran, want %q again", got, dead.Key)
		}
		do(func() error { _, err := other.Hasten(ctx, "q", waits.ID); return err })
		if got := <-ran; !strings.HasPrefix(got, waits.Key+" by ") {
			t.Errorf("%q ran, want %q now", got, waits.Key)
		}
	}
	if err := ps[0].Cancel(ctx, "q", "x"); !errors.As(err, new(*job.InvalidError)) {
		t.Errorf("cancel of no id: %v", err)
	}
	for _, p := range ps {
		p.stop()
		if err := <-p.end; err != nil {
			t.Error(err)
		}
	}
}

// TestPauseByWhoever: a queue whose shards two processes own is paused and resumed by
// either of them.
func TestPauseByWhoever(t *testing.T) {
	t.Parallel()
	s, ran := sim.New(), make(chan string, 100)
	ps := []*process{start(t, s, "a", 0, ran), start(t, s, "b", 1, ran)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	set := func(p *process, on, duplicate bool) {
		t.Helper()
		for {
			got, err := p.SetPaused(ctx, "q", on)
			var partly *scheduler.PartlyError
			switch {
			case err == nil && got == duplicate:
				return
			case err == nil:
				t.Fatalf("paused %v: duplicate %v", on, got)
			case !errors.As(err, &partly) || len(partly.Shards) == 0 || ctx.Err() != nil:
				t.Fatal(err)
			}
			time.Sleep(5 * time.Millisecond) // nobody owns some shard yet
		}
	}
	set(ps[0], false, true)
	for n, p := range ps {
		set(p, true, false)
		set(ps[1-n], true, true)
		for i := range 8 {
			j := job.Job{Queue: "q", Kind: "k", Key: fmt.Sprint(n, i)}
			j.ID = job.KeyedID("q", j.Key, shards)
			if _, err := ps[i%2].Submit(ctx, j); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(100 * time.Millisecond)
		if len(ran) > 0 {
			t.Fatalf("%s ran while the queue was paused", <-ran)
		}
		set(ps[1-n], false, false)
		for range 8 {
			select {
			case <-ran:
			case <-ctx.Done():
				t.Fatal("what waited does not run")
			}
		}
	}
	if _, err := ps[0].SetPaused(ctx, "other", true); !errors.As(err, new(*job.InvalidError)) {
		t.Errorf("another queue: %v", err)
	}
	for _, p := range ps {
		p.stop()
		if err := <-p.end; err != nil {
			t.Error(err)
		}
	}
}

// TestCommandsWaitForAnOwner: a command that comes before any owner is known, as when its
// process has just started, waits for one instead of being refused.
func TestCommandsWaitForAnOwner(t *testing.T) {
	t.Parallel()
	p := start(t, sim.New(), "a", 0, nil)
	if err := p.Cancel(t.Context(), "q", job.KeyedID("q", "nobody's", shards)); !errors.Is(err, engine.ErrUnknownJob) {
		t.Errorf("cancel: %v", err)
	}
	p.stop()
	if err := <-p.end; err != nil {
		t.Error(err)
	}
}
