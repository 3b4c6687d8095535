package checker

import (
	"context"
	"runtime"
	"testing"

	"fencepost/checker/past"
	"fencepost/internal/race"
)

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
