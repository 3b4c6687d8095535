package reports

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"fencepost/harness/record/history"
	"fencepost/reports/measure"
	"fencepost/reports/reporttest"
)

// column reads a column back.
func column(t *testing.T, b []byte, n int, signed bool) []int64 {
	t.Helper()
	var out []int64
	for len(b) > 0 {
		v, size := binary.Uvarint(b)
		x := int64(v)
		if signed {
			x, size = binary.Varint(b)
		}
		if size <= 0 {
			t.Fatal("a column is cut off")
		}
		b, out = b[size:], append(out, x)
	}
	if len(out) != n {
		t.Fatalf("a column has %d numbers, want %d", len(out), n)
	}
	return out
}

// pageTimeline is the time line's data as the page has it.
func pageTimeline(t *testing.T, dir string) timelineData {
	t.Helper()
	path, err := WriteRun(context.Background(), dir)
	must(t, err)
	var d timelineData
	found := false
	readPage(t, path).each("script", func(n *html.Node) {
		if attrOf(n, "id") == "tl-data" {
			found = true
			must(t, json.Unmarshal([]byte(n.FirstChild.Data), &d))
		}
	})
	if !found {
		t.Fatal("the page has no time line")
	}
	return d
}

// TestTimelineHasTheHistory: what the page holds is what was recorded, operation by operation.
func TestTimelineHasTheHistory(t *testing.T) {
	t.Parallel()
	dir := makeRun(t, reporttest.Options{Seed: 1, Fault: "pause-worker", Verdict: "PASS", Locks: 3})
	d := pageTimeline(t, dir)
	h, err := history.ReadDir(filepath.Join(dir, "history"))
	must(t, err)
	a, err := measure.Analyze(h)
	must(t, err)
	a.Ops = slices.DeleteFunc(a.Ops, func(op history.Operation) bool { return op.Invoke.TS > a.End }) // read after the run
	n := len(a.Ops)
	if d.Ops.N != n || n == 0 {
		t.Fatalf("%d operations, want %d", d.Ops.N, n)
	}
	u := func(b []byte) []int64 { return column(t, b, n, false) }
	at, dur, kind, outcome, proc, lane := column(t, d.Ops.At, n, true), u(d.Ops.Dur), u(d.Ops.Kind), u(d.Ops.Outcome), u(d.Ops.Proc),
		u(d.Ops.Lane)
	line, end, token := column(t, d.Ops.Line, n, true), u(d.Ops.EndLine), u(d.Ops.Token)
	lines, now := map[int]int64{}, int64(0)
	for i, op := range a.Ops {
		in := op.Invoke
		now += at[i]
		file := d.Procs[proc[i]].File
		lines[file] += line[i]
		if got, want := now, (in.TS-a.Start)/1000; got != want {
			t.Fatalf("operation %d begins at %d µs, want %d", i, got, want)
		}
		if d.Procs[proc[i]].Name != in.Proc || d.Files[file] != relative(in.File) || lines[file] != int64(in.Line) {
			t.Fatalf("operation %d is %s's at %s:%d, want %s's at %s:%d", i, d.Procs[proc[i]].Name, d.Files[file], lines[file], in.Proc,
				relative(in.File), in.Line)
		}
		if d.Kinds[kind[i]].Name != measure.OpTitle(in.Op) || []history.Type{history.OK, history.Fail,
			history.Unknown}[outcome[i]] != op.Outcome {
			t.Fatalf("operation %d is %s %d, want %s %s", i, d.Kinds[kind[i]].Name, outcome[i], in.Op, op.Outcome)
		}
		if (dur[i] == 0) != (op.End.TS == 0) || (end[i] == 0) != (op.End.TS == 0) {
			t.Fatalf("operation %d: end %d, %d", i, dur[i], end[i])
		}
		row := strings.TrimPrefix(in.Key, "res-")
		if lane[i] == 0 || d.Lanes[lane[i]-1] != row {
			t.Fatalf("operation %d is not in the lane of %s", i, row)
		}
		if in.Op == history.OpEffect && token[i] != in.Token || in.Op == history.OpAcquire && token[i] != in.To.Fence {
			t.Fatalf("operation %d has token %d", i, token[i])
		}
	}
	if d.Holds.N != len(a.Grants) || d.Holds.N == 0 || len(d.Faults) != 1 || len(d.Phases) != 7 {
		t.Errorf("%d holdings of %d, %d faults, %d phases", d.Holds.N, len(a.Grants), len(d.Faults), len(d.Phases))
	}
	if !slices.ContainsFunc(d.Marks, func(m timelineMark) bool { return m.Name == "lease-lost" && m.Lane >= 0 }) {
		t.Error("the lost lease is not marked")
	}
}

// TestTimelineViolations: each points at the page's element that tells it and at its operations.
func TestTimelineViolations(t *testing.T) {
	t.Parallel()
	dir := makeRun(t, reporttest.Options{Seed: 2, Fault: "pause-worker", Broken: reporttest.SinkNoTokenCheck, Locks: 3,
		Hold: 200 * time.Millisecond, TTL: 4 * time.Second, Verdict: "FAIL"})
	d := pageTimeline(t, dir)
	if len(d.Found) == 0 {
		t.Fatal("no violation in the time line")
	}
	page := readPage(t, filepath.Join(dir, "report.html"))
	for _, v := range d.Found {
		page.byID(v.ID)
		if v.To <= v.From || v.To > d.End || v.Lane < 0 || len(v.Tokens) < 2 || len(v.Events) == 0 {
			t.Errorf("%+v", v)
		}
		ops := 0
		for _, e := range v.Events {
			if e.Op >= 0 {
				ops++
			}
		}
		if ops == 0 {
			t.Errorf("%s points at no operation", v.ID)
		}
	}
}

// TestTimelineOfJobs: lanes are shards with their owners, and runs are operations.
func TestTimelineOfJobs(t *testing.T) {
	t.Parallel()
	dir, err := reporttest.WriteJobs(t.TempDir(), 1)
	must(t, err)
	d := pageTimeline(t, dir)
	if d.Noun != "shard" || strings.Join(d.Lanes, " ") != "shard/jobs/0 shard/jobs/1 shard/jobs/2 shard/jobs/3" {
		t.Errorf("lanes: %s %v", d.Noun, d.Lanes)
	}
	run := slices.IndexFunc(d.Kinds, func(k timelineKind) bool { return k.Name == "run" })
	if run < 0 || d.Headline != run && d.Kinds[d.Headline].Name == "" {
		t.Fatalf("kinds: %v", d.Kinds)
	}
	n := map[int64]int{}
	kind, outcome := column(t, d.Ops.Kind, d.Ops.N, false), column(t, d.Ops.Outcome, d.Ops.N, false)
	for i := range kind {
		if kind[i] == int64(run) {
			n[outcome[i]]++
		}
	}
	if n[0] == 0 || n[1] == 0 || n[2] != 1 {
		t.Errorf("runs by outcome: %v, want some ok, some failed, one that was never ended", n)
	}
	// The shard of the one that was killed had two owners, the others one.
	lanes := column(t, d.Holds.Lane, d.Holds.N, false)
	flags := column(t, d.Holds.Flags, d.Holds.N, false)
	if len(lanes) != 5 || lanes[1] != 1 || lanes[2] != 1 || flags[2]&1 == 0 {
		t.Errorf("owners by lane %v, flags %v", lanes, flags)
	}
}

func TestByNumber(t *testing.T) {
	t.Parallel()
	names := []string{"w10.1/c1", "w2.1/c10", "w2.1/c9", "harness", "w2.1", "lock-01", "lock-1"}
	slices.SortFunc(names, byNumber)
	if got := strings.Join(names, " "); got != "harness lock-01 lock-1 w2.1 w2.1/c9 w2.1/c10 w10.1/c1" {
		t.Error(got)
	}
}
