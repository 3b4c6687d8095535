package jobs

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/bench"
	"fencepost/bench/benchtest"
	"fencepost/core/clock"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

func TestParseSchedulers(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]int{"": nil, "1,2,4": {1, 2, 4}, " 3": {3}} {
		if got, err := ParseSchedulers(in); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"x", "1,", "1x2"} {
		if got, err := ParseSchedulers(in); err == nil {
			t.Errorf("%q: %v", in, got)
		}
	}
	for _, n := range [][]int{{0}, {5}, {2, 2}} {
		if _, err := New(Config{Shards: []int{4}, Schedulers: n}); err == nil {
			t.Errorf("%v is taken", n)
		}
	}
}

func TestSpreadArms(t *testing.T) {
	t.Parallel()
	s, err := New(Config{Shards: []int{4}, Schedulers: []int{1, 2, 4}})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, a := range s.plan.Arms {
		ids = append(ids, a.ID)
		if a.Processes > 0 && (a.Shards != 4 || a.Threads != 400 || a.Baseline != "J/4" || !strings.HasPrefix(a.Name, "jobs in ")) {
			t.Errorf("%+v", a)
		}
	}
	if want := []string{"C/32", "P", "J/4", "J2/4", "J/4x1", "J/4x2", "J/4x4", "PS", "JS/4", "C/1", "J1/4"}; !slices.Equal(ids, want) {
		t.Errorf("arms %v, want %v", ids, want)
	}
}

// spreadOut runs an arm of a kind in several processes, and looks at all of it.
func spreadOut(t *testing.T, processes int, kind string, sabotage func(process int, e *bench.Env)) (*bench.Result, []bench.Sample) {
	t.Helper()
	rows, effects := sim.New(), newWorld(sim.Faults{}).env
	all, samples := make([]json.RawMessage, processes), make([]bench.Sample, processes)
	together := benchtest.NewCompany(processes)
	var wg sync.WaitGroup
	make := func() (*Suite, bench.Arm) {
		s := newSuite(t, Config{Shards: []int{4}, Schedulers: []int{processes}})
		a := s.spread(processes)
		a.Kind = kind
		return s, a
	}
	for i := range processes {
		wg.Go(func() {
			session := rows.Connect("p", uint64(i+1))
			session.SetFaults(sim.Faults{Latency: oneWay})
			env := *effects
			env.Locks, env.Shards, env.Members, env.Process = session, session, session, i+1
			sabotage(i+1, &env)
			s, a := make()
			if err := s.Open(t.Context(), &env); err != nil {
				t.Error(err)
				return
			}
			a.Threads /= processes
			subject, err := s.Subject(a, uint64(i+1))
			if err != nil {
				t.Error(err)
				return
			}
			w := bench.Window{Arm: a, Round: 1, Lead: time.Second, Length: 2 * time.Second, First: i * a.Threads, Company: together}
			if samples[i], err = subject.Window(t.Context(), w); err != nil {
				t.Errorf("process %d: %v", i+1, err)
			}
			if err := subject.Close(t.Context()); err != nil {
				t.Errorf("process %d: %v", i+1, err)
			}
			if all[i], err = json.Marshal(s.Export()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s, _ := make()
	env := *effects
	env.Locks, env.Shards = rows.Connect("all", 9), rows.Connect("all", 9)
	if err := s.Open(t.Context(), &env); err != nil {
		t.Fatal(err)
	}
	r := &bench.Result{Suite: s, Design: s.Design()}
	if err := s.Import(all); err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return r, samples
}

// TestSpread: schedulers in several processes share the shards evenly, and nothing is
// missing of what they did together. Here where they do not compete for processors, each
// shard does as many jobs as with one scheduler.
func TestSpread(t *testing.T) {
	t.Parallel()
	for kind, all := range map[string][]int{kindJobs: {1, 2, 4}, kindEffects: {2}} {
		for _, processes := range all {
			synctest.Test(t, func(t *testing.T) {
				r, samples := spreadOut(t, processes, kind, func(int, *bench.Env) {})
				for i, s := range samples {
					shards := 4 / float64(processes)
					if rate := s.Rate() / shards; rate < map[string]float64{kindJobs: 530, kindEffects: 430}[kind] || rate > 640 {
						t.Errorf("process %d of %d: %.0f jobs/s for each shard", i+1, processes, rate)
					}
				}
				notes := strings.Join(r.Notes, "\n")
				if len(r.Violations)+len(r.Problems) > 0 || !strings.Contains(notes, "of 1 queues, each completed once") {
					t.Errorf("%d processes: violations %q, problems %q, notes %q", processes, r.Violations, r.Problems, notes)
				}
			})
		}
	}
}

// own are shards that another process knows nothing of, but for their number.
type own struct{ store.Shards }

func (o own) id(s store.ShardID) store.ShardID {
	return store.ShardID{Queue: "other_" + s.Queue, Shard: s.Shard}
}

func (o own) EnsureQueue(ctx context.Context, queue string, shards int) (store.Queue, error) {
	q, err := o.Shards.EnsureQueue(ctx, queue, shards)
	if err == nil {
		_, err = o.Shards.EnsureQueue(ctx, "other_"+queue, shards)
	}
	return q, err
}

func (o own) Look(ctx context.Context, s store.ShardID, serial bool) (*store.Header, error) {
	return o.Shards.Look(ctx, o.id(s), serial)
}

func (o own) Commit(ctx context.Context, s store.ShardID, b store.Batch, copyNo int) (store.CommitResult, error) {
	return o.Shards.Commit(ctx, o.id(s), b, copyNo)
}

func (o own) Scan(ctx context.Context, s store.ShardID, r store.Range) ([]store.Row, error) {
	return o.Shards.Scan(ctx, o.id(s), r)
}

func (o own) Row(ctx context.Context, s store.ShardID, k store.Key) (*store.Row, error) {
	return o.Shards.Row(ctx, o.id(s), k)
}

func (o own) InboxScan(ctx context.Context, s store.ShardID, after, upTo string, limit int) ([]store.InboxRow, error) {
	return o.Shards.InboxScan(ctx, o.id(s), after, upTo, limit)
}

// TestSpreadUnsafe: what one of several processes does wrong is found.
func TestSpreadUnsafe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind     string
		sabotage func(e *bench.Env)
		want     string
	}{
		"jobs elsewhere":            {kindJobs, func(e *bench.Env) { e.Shards = own{e.Shards} }, "and its row is gone"},
		"batches that are not done": {kindJobs, func(e *bench.Env) { e.Shards = &broken{Shards: e.Shards, unsent: true} }, "was completed 2 times"},
		"effects lost":              {kindEffects, func(e *bench.Env) { e.Sink = &forgetful{Sink: e.Sink} }, "was accepted 0 times"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, _ := spreadOut(t, 2, c.kind, func(process int, e *bench.Env) {
				if process == 2 {
					c.sabotage(e)
				}
			})
			if found := strings.Join(r.Violations, "\n"); !strings.Contains(found, c.want) {
				t.Errorf("%s: violations\n%s\nwant one with %q", name, found, c.want)
			}
		})
	}
}

// TestBooksTogether: what two processes know of the jobs that each of them asked for.
func TestBooksTogether(t *testing.T) {
	t.Parallel()
	run := func(b *book, id job.ID) {
		b.start(id)
		b.finish(id, nil)
		b.end(id)
	}
	for _, c := range []struct {
		name string
		do   func(a, b *book, mine job.ID)
		want string // part of the only violation; "" for none
	}{
		{"done where it was asked for", func(a, _ *book, id job.ID) { run(a, id) }, ""},
		{"done in another process", func(_, b *book, id job.ID) { run(b, id) }, ""},
		{"begun in one, lost, and done in another", func(a, b *book, id job.ID) { a.start(id); a.lose(); run(b, id) }, ""},
		{"done in two processes", func(a, b *book, id job.ID) { run(a, id); run(b, id) }, "was completed 2 times"},
		{"done in two processes after a shard was lost", func(a, b *book, id job.ID) { run(a, id); a.lose(); run(b, id) }, "was completed 2 times"},
		{"run in two processes", func(a, b *book, id job.ID) { a.start(id); run(b, id) }, "ran 2 times"},
		{"refused, and done in another process", func(a, b *book, id job.ID) { a.replied(0, refused); run(b, id) }, "was refused for certain"},
		{"nobody's", func(_, b *book, id job.ID) { run(b, job.UniqueID([16]byte{1}, 2)) }, "nobody enqueued it"},
	} {
		var all []json.RawMessage
		suites := []*Suite{newSuite(t, Config{}), newSuite(t, Config{})}
		var books []*book
		for i, s := range suites {
			s.env = &bench.Env{Process: i + 1}
			b := s.open(bench.Arm{Kind: kindJobs, Shards: 2, Processes: 2}, "q")
			b.own = []int{i}
			n, _ := b.ask(time.Now())
			b.replied(n, acked)
			books = append(books, b)
		}
		c.do(books[0], books[1], books[0].id(0))
		run(books[1], books[1].id(0))
		for _, s := range suites {
			raw, err := json.Marshal(s.Export())
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, raw)
		}
		s := newSuite(t, Config{})
		if err := s.Import(all); err != nil {
			t.Fatal(err)
		}
		if len(s.books) != 1 {
			t.Fatalf("%d queues", len(s.books))
		}
		f := &findings{queue: "q"}
		s.books[0].judge(f)
		got := f.all()
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if err := newSuite(t, Config{}).Import([]json.RawMessage{[]byte("x")}); err == nil {
		t.Error("a book that cannot be read is taken")
	}
}

// TestOwnIDs: a process asks for jobs of its own shards.
func TestOwnIDs(t *testing.T) {
	t.Parallel()
	b := newBook("q", 7, 4)
	b.own = []int{1, 3}
	each := map[int]int{}
	for range 1000 {
		n, j := b.ask(b.begin)
		shard, _ := j.ID.Shard()
		each[shard]++
		if got, ok := b.number(j.ID); !ok || got != n || tagOf(j.ID) != 7 || j.WithDefaults().Check(4) != nil {
			t.Fatalf("%s is job %d, %v", j.ID, got, ok)
		}
	}
	if len(each) != 2 || each[1] < 400 || each[3] < 400 {
		t.Errorf("jobs by shard: %v", each)
	}
}

// TestNotSettled: a process whose others do not come says so.
func TestNotSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(sim.Faults{})
		w.env.Members, w.env.Process, w.env.Clock = w.session, 1, clock.Go()
		s := newSuite(t, Config{Schedulers: []int{2}})
		if err := s.Open(t.Context(), w.env); err != nil {
			t.Fatal(err)
		}
		a := s.spread(2)
		subject, err := s.Subject(a, 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := subject.Window(t.Context(), bench.Window{Arm: a, Round: 1, Length: time.Second, Company: benchtest.NewCompany(1)}); err == nil || !strings.Contains(err.Error(), "1 of 2 schedulers of J_2x2_1 take part") {
			t.Errorf("%v", err)
		}
	})
}
