package checker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"fencepost/checker/linear"
	"fencepost/checker/past"
	"fencepost/checker/property"
	"fencepost/harness/record/history"
	"fencepost/internal/race"
)

// benchHistory is a legal run of about so many events: two short ones say how
// long it must be.
func benchHistory(events, locks int) *history.History {
	cfg := simConfig{
		seed: 1, workers: 8, clients: 8, locks: locks, ttl: 600 * time.Millisecond, length: 10 * time.Second,
		noise: 0.01, pause: 0.01, crash: 0.2,
	}
	n := len(simulate(cfg).Events)
	cfg.length *= 2
	more := len(simulate(cfg).Events) - n // in 10 s, without beginning and end
	cfg.length = time.Duration(float64(10*time.Second) * max(0.2, 1+float64(events-n)/float64(more)))
	return simulate(cfg)
}

// BenchmarkCheck checks whole histories on disk in a child with its limits, as
// the tool does; peak_mb is the child's largest resident memory, cpu_s all that it used.
func BenchmarkCheck(b *testing.B) {
	for _, size := range []struct{ events, locks int }{{10_000, 10}, {100_000, 10}, {100_000, 1}, {1_000_000, 1000}, {1_000_000, 10}} {
		b.Run(fmt.Sprintf("%dk-events-%d-locks", size.events/1000, size.locks), func(b *testing.B) {
			benchCheck(b, func() *history.History { return benchHistory(size.events, size.locks) })
		})
	}
	b.Run("hot-lock", func(b *testing.B) {
		benchCheck(b, func() *history.History { return hotLock(hotCycles) })
	})
}

// benchCheck makes the history only to write it, so that it is garbage while it is checked.
func benchCheck(b *testing.B, made func() *history.History) {
	files := writeFiles(b, made(), b.TempDir())
	runtime.GC()
	for b.Loop() {
		begin := time.Now()
		a, cpu := benchChild(b, files)
		whole := time.Since(begin).Seconds()
		r := a.Result
		if r.Verdict != Pass {
			b.Fatalf("%s: %s", r.Verdict, r.Summary)
		}
		b.ReportMetric(float64(r.Counts.Events), "events")
		b.ReportMetric(float64(r.Counts.Events)/whole, "events/s")
		b.ReportMetric(r.Millis/1000, "check-s")
		b.ReportMetric(whole-r.Millis/1000, "read-s")
		b.ReportMetric(float64(a.Peak)/1024, "peak_mb")
		b.ReportMetric(cpu.Seconds(), "cpu_s")
	}
}

// benchChild runs one checking child and returns its answer and its CPU
// time, which CheckInChild does not tell.
func benchChild(b *testing.B, files []string) (childAnswer, time.Duration) {
	b.Helper()
	env, err := json.Marshal(childRequest{Options{}.withDefaults(), files})
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], ChildArgs...)
	cmd.Env = append(os.Environ(), ChildEnv+"="+string(env))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		b.Fatal(err)
	}
	var a childAnswer
	if err := json.Unmarshal(out.Bytes(), &a); err != nil || a.Result == nil {
		b.Fatalf("%v: %s", err, out.Bytes())
	}
	return a, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// BenchmarkStage measures reading, sorting and each property for itself.
func BenchmarkStage(b *testing.B) {
	for _, size := range []struct{ events, locks int }{{10_000, 10}, {100_000, 100}, {1_000_000, 1000}} {
		b.Run(fmt.Sprintf("%dk-events", size.events/1000), func(b *testing.B) {
			h := benchHistory(size.events, size.locks)
			dir := b.TempDir()
			writeFiles(b, h, dir)
			stage := func(name string, run func()) {
				b.Run(name, func(b *testing.B) {
					b.ReportAllocs()
					n := 0
					for b.Loop() {
						run()
						n++
					}
					b.ReportMetric(float64(n*len(h.Events))/b.Elapsed().Seconds(), "events/s")
				})
			}
			stage("read", func() {
				if _, err := Read(dir); err != nil {
					b.Fatal(err)
				}
			})
			var p *past.Past
			stage("past", func() { p = past.New(h, false) })
			for _, c := range property.All {
				if p == nil {
					p = past.New(h, false) // -bench left the stage out
				}
				stage(c.ID, func() {
					a := &property.Judgement{Past: p, Search: DefaultSearch}
					if p := a.Judge(context.Background(), c); p.Status == StatusUnknown {
						b.Fatalf("%s: %s", p.ID, p.Detail)
					}
				})
			}
		})
	}
}

// Bounds on bytes an event, a quarter above what is measured. A million events
// then take less than 600 MB: see BenchmarkCheck, which measures that.
const (
	maxReadBytes  = 470 // allocated by reading
	maxHeldBytes  = 560 // held by the history and its analysis
	maxCheckBytes = 790 // allocated by checking
)

// TestMemoryPerEvent bounds what reading and checking allocate. It does not run
// beside other tests, whose allocations would count.
func TestMemoryPerEvent(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector changes what is allocated")
	}
	dir := t.TempDir()
	sim := benchHistory(100_000, 100)
	n := uint64(len(sim.Events))
	writeFiles(t, sim, dir)
	sim = nil
	begin := allocated()
	h, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	read := allocated()
	a := past.New(h, false)
	held := allocated()
	runtime.KeepAlive(a)
	a = nil
	checkBegin := allocated()
	r := Check(context.Background(), h, Options{})
	end := allocated()
	if r.Verdict != Pass {
		t.Fatalf("%s: %s", r.Verdict, r.Summary)
	}
	for _, x := range []struct {
		what       string
		bytes, max uint64
	}{
		{"reading allocates", (read.TotalAlloc - begin.TotalAlloc) / n, maxReadBytes},
		{"history and analysis hold", (held.HeapAlloc - begin.HeapAlloc) / n, maxHeldBytes},
		{"checking allocates", (end.TotalAlloc - checkBegin.TotalAlloc) / n, maxCheckBytes},
	} {
		t.Logf("%s %d bytes an event (%d events)", x.what, x.bytes, n)
		if x.bytes > x.max {
			t.Errorf("%s %d bytes an event, more than %d", x.what, x.bytes, x.max)
		}
	}
}

func allocated() runtime.MemStats {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m
}

// A hot lock's cycles and contenders: 65,002 operations on its row.
const (
	hotCycles     = 6500
	hotContenders = 8
)

// hotLock is a legal run of contenders that all want one lock, without a pause, for so
// many cycles: an acquire, a renewal and a release that are applied, and a rejection for
// each of the others. At no instant is nothing in flight. Times are in ms.
func hotLock(cycles int) *history.History {
	var lives []string
	for i := range hotContenders {
		lives = append(lives, fmt.Sprintf("w%d.1", i+1))
	}
	y := newTiny(lives...)
	for i := range y.h.Headers {
		y.h.Headers[i].Promises = []string{"P1", "P2", "P8", "P9"} // there is no work under the lock
	}
	y.expect(history.Expect{Workers: hotContenders})
	at := int64(0)
	for cycle := range cycles {
		at += 10
		life := lives[cycle%hotContenders]
		winner, free := life+"/c1", y.row
		y.lock(at, at+3, winner, history.OK, y.row.Fence+1)
		y.cas(at+1, at+2, winner, history.OpAcquire, history.OK)
		held := y.row
		for i, other := range lives {
			if other != life { // it has asked when the lock was free, and is answered in the next cycle
				tried := history.Version{Fence: free.Fence + 1, Attempt: fmt.Sprintf("t%d-%d", cycle, i), Holder: other + "/c2", TTLMS: tinyTTL}
				y.op(at+1, at+11, other+"/c2", history.Fail, history.Event{Op: history.OpAcquire, Key: "a", From: &free, To: &tried}, history.Event{Row: &held})
			}
		}
		y.cas(at+4, at+5, winner, history.OpRenew, history.OK)
		y.cas(at+6, at+7, winner, history.OpRelease, history.OK)
	}
	return y.end(at + 20)
}

// TestHotLock: a lock that is never left alone is decided, and a defect of it is found by
// each opinion: an answer in the middle that shows a row which had been left.
func TestHotLock(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	h := hotLock(hotCycles)
	r := Check(context.Background(), h, Options{})
	p := propertyOf(r, "P2")
	if r.Verdict != Pass || p.Encodings["open"] != "Ok" || p.Checked != 65_002 {
		t.Fatalf("%s: %s: %d checked, %v", r.Verdict, r.Summary, p.Checked, p.Encodings)
	}
	e := newEdit(h)
	rejected := e.all(history.OpAcquire, history.Fail)
	bad := rejected[len(rejected)/2]
	bad.end.Row = rejected[len(rejected)/2-20].end.Row
	p = propertyOf(Check(context.Background(), e.h, Options{}), "P2")
	if p.Status != StatusFail || p.Count != 1 || !strings.Contains(p.Violations[0].Message, "stale rejection") ||
		!slices.ContainsFunc(p.Violations[0].Events, func(ref EventRef) bool { return ref.Event.Proc == bad.inv.Proc && ref.Event.ID == bad.inv.ID }) {
		t.Errorf("%s: %+v", p.Status, p.Violations)
	}
	if got := aloneAll(e.h, linear.SegmentOps); got != porcupine.Illegal {
		t.Errorf("Porcupine alone: %s", got)
	}
}

// TestSecondOpinionUnfinished: what the linear-time checks have decided does not become
// unknown for lack of a second opinion, and the detail says so. What only Porcupine can
// judge does: the sink, rows that are not sealed, and the bounded encoding.
func TestSecondOpinionUnfinished(t *testing.T) {
	t.Parallel()
	none := Options{Search: 1}
	p := propertyOf(Check(context.Background(), hotLock(20), none), "P2")
	if p.Status != StatusPass || p.Encodings["open"] != "Unknown" || !strings.Contains(p.Detail, "the second opinion, was not finished on 1 row (a)") {
		t.Errorf("decided: %s (%s) %v", p.Status, p.Detail, p.Encodings)
	}
	s := resurrected(true, 35, 60)
	if p := propertyOf(Check(context.Background(), newEdit(&s.h).h, none), "P2"); p.Status != StatusUnknown {
		t.Errorf("bounded: %s (%s)", p.Status, p.Detail)
	}
	s = newScript()
	s.cas("w1.1/c1", history.OpAcquire, past.NoRow, heldA, 10, 20, history.OK, false)
	if p := propertyOf(Check(context.Background(), newEdit(&s.h).h, none), "P2"); p.Status != StatusUnknown {
		t.Errorf("not sealed: %s (%s)", p.Status, p.Detail)
	}
	h := simulate(simConfig{seed: 3, workers: 2, clients: 1, locks: 1, ttl: 600e6, length: 20e9})
	if r := Check(context.Background(), h, none); propertyOf(r, "P4").Status != StatusUnknown || r.Verdict != Unknown {
		t.Errorf("sink: %s: %s", r.Verdict, r.Summary)
	}
}
