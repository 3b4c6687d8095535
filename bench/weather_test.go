package bench

import (
	"math"
	"os"
	"testing"
	"time"
)

func TestLoad(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	s := seconds
	a := weather{at: begin, own: s(1), nodes: s(10), all: s(50), stole: s(1), known: true}
	b := weather{at: begin.Add(s(2)), own: s(2), nodes: s(12), all: s(54), stole: s(1.5), known: true}
	got := b.since(a)
	for name, v := range map[string][2]float64{
		"own": {got.Own, 0.5}, "nodes": {got.Nodes, 1}, "other": {got.Other, 0.5}, "stolen": {got.Stolen, 0.25},
	} {
		if math.Abs(v[0]-v[1]) > 1e-9 {
			t.Errorf("%s: %v cores, want %v", name, v[0], v[1])
		}
	}
	b.known = false
	if got := b.since(a); got.Known || got.Other != 0 || got.Own != 0.5 {
		t.Errorf("%+v: what could not be read is not known", got)
	}
}

func TestReadWeather(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc on this system")
	}
	if w := readWeather([]int{os.Getpid()}); !w.known || w.all <= 0 {
		t.Errorf("%+v", w)
	}
	if w := readWeather([]int{1 << 30}); w.known {
		t.Errorf("a process that does not exist was read: %+v", w)
	}
}
