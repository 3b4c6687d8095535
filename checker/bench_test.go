package checker

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"
)

// benchHistory writes the files of a run of about so many events.
func benchHistory(b *testing.B, events, locks int) []string {
	b.Helper()
	cfg := simConfig{
		seed: 1, workers: 8, clients: 8, locks: locks, ttl: 600 * time.Millisecond, length: time.Hour, maxEvents: events * 9 / 10,
		noise: 0.01, pause: 0.01, crash: 0.2,
	}
	h := simulate(cfg)
	return writeFiles(b, h, b.TempDir())
}

// BenchmarkCheck checks whole histories in a child, as the tool does: reading
// included, peak-MB is the child's largest resident memory.
func BenchmarkCheck(b *testing.B) {
	spent := int64(0)
	for _, size := range []struct{ events, locks int }{{100_000, 10}, {100_000, 1}, {1_000_000, 1000}, {1_000_000, 10}} {
		b.Run(fmt.Sprintf("%dk-events-%d-locks", size.events/1000, size.locks), func(b *testing.B) {
			files := benchHistory(b, size.events, size.locks)
			for b.Loop() {
				begin := time.Now()
				r, err := CheckInChild(context.Background(), os.Args[0], files...)
				if err != nil {
					b.Fatal(err)
				}
				whole := time.Since(begin)
				if r.Verdict != Pass && r.Verdict != Invalid || len(failing(r)) > 0 {
					b.Fatalf("%s: %s", r.Verdict, r.Summary)
				}
				var usage syscall.Rusage
				if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &usage); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(r.Counts.Events), "events")
				b.ReportMetric(float64(r.Counts.Operations), "ops")
				b.ReportMetric(whole.Seconds()-r.Millis/1000, "read-s")
				b.ReportMetric(r.Millis/1000, "check-s")
				b.ReportMetric(float64(usage.Maxrss)/1024, "peak-MB")
				b.ReportMetric(time.Duration(usage.Utime.Nano()+usage.Stime.Nano()-spent).Seconds(), "cpu-s")
				spent = usage.Utime.Nano() + usage.Stime.Nano()
				for _, p := range r.Properties {
					if p.Millis > 500 {
						b.Logf("%s %.1f s %v", p.ID, p.Millis/1000, p.Encodings)
					}
				}
				b.Log(r.Verdict, r.Summary)
			}
		})
	}
}
