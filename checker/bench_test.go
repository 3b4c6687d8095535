package checker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"fencepost/checker/past"
	"fencepost/checker/property"
	"fencepost/harness/record/history"
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
