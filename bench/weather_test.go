package bench

import (
	"math"
	"os"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	all, stole, err := parseStat([]byte("cpu  100 20 30 4000 50 6 7 8 9 10\ncpu0 1 1 1 1 1 1 1 1 1 1\n"))
	if err != nil || all != 1500*time.Millisecond || stole != 80*time.Millisecond {
		t.Errorf("%s, %s, %v; want 1.5s, 80ms", all, stole, err)
	}
	for _, bad := range []string{"", "cpu 1 2", "intr 1 2 3 4 5 6 7 8 9", "cpu a 2 3 4 5 6 7 8 9"} {
		if _, _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestParsePIDStat(t *testing.T) {
	t.Parallel()
	d, err := parsePIDStat([]byte("77 (a) b) S 1 77 77 0 -1 4194304 9 9 9 9 250 50 7 7 20 0 33 0 8 8 8"))
	if err != nil || d != 3*time.Second {
		t.Errorf("%s, %v; want 3s", d, err)
	}
	for _, bad := range []string{"", "77 (x) S 1 2", "77 (x) S 1 1 1 1 1 1 1 1 1 1 a b"} {
		if _, err := parsePIDStat([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	s := func(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }
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
