package reports

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"fencepost/checker"
	"fencepost/harness/history"
	"fencepost/harness/rundir"
	"fencepost/reports/reporttest"
)

func makeRun(t *testing.T, o reporttest.Options) string {
	t.Helper()
	dir, err := reporttest.Write(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// doc is a page as a tree, with the questions that tests ask of it.
type doc struct {
	t    *testing.T
	root *html.Node
	raw  string
}

func readPage(t *testing.T, path string) doc {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	root, err := html.Parse(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return doc{t, root, string(b)}
}

func (d doc) each(tag string, f func(*html.Node)) {
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.ElementNode && (tag == "" || n.Data == tag) {
			f(n)
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(d.root)
}

func attrOf(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func text(n *html.Node) string {
	var b strings.Builder
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(n)
	return strings.Join(strings.Fields(b.String()), " ")
}

func (d doc) byID(id string) *html.Node {
	var found *html.Node
	d.each("", func(n *html.Node) {
		if found == nil && attrOf(n, "id") == id {
			found = n
		}
	})
	if found == nil {
		d.t.Fatalf("the page has no element %q", id)
	}
	return found
}

func (d doc) count(tag string, within string) int {
	n := 0
	doc{d.t, d.byID(within), ""}.each(tag, func(*html.Node) { n++ })
	return n
}

// selfContained fails the test if the page needs anything but itself and files
// beside it, or lacks what makes it usable by everybody.
func (d doc) selfContained() {
	d.t.Helper()
	ids := map[string]bool{}
	d.each("", func(n *html.Node) {
		if id := attrOf(n, "id"); id != "" {
			if ids[id] {
				d.t.Errorf("id %q is used twice", id)
			}
			ids[id] = true
		}
	})
	h1, level := 0, 0
	d.each("", func(n *html.Node) {
		for _, a := range []string{"src", "href", "srcset", "action"} {
			v := attrOf(n, a)
			if strings.Contains(v, "//") || strings.HasPrefix(v, "javascript:") {
				d.t.Errorf("<%s %s=%q> leaves the page", n.Data, a, v)
			}
			if strings.HasPrefix(v, "#") && !ids[v[1:]] {
				d.t.Errorf("link to %s, which is not there", v)
			}
		}
		switch n.Data {
		case "h1", "h2", "h3":
			l := int(n.Data[1] - '0')
			if l > level+1 {
				d.t.Errorf("heading %q skips a level", text(n))
			}
			level = l
			if l == 1 {
				h1++
			}
		case "table":
			if n.FirstChild == nil {
				return
			}
			caption := false
			for c := n.FirstChild; c != nil; c = c.NextSibling {
				caption = caption || c.Data == "caption" && text(c) != ""
			}
			if !caption {
				d.t.Error("a table has no caption")
			}
		case "svg":
			if attrOf(n, "aria-hidden") == "" && (attrOf(n, "role") != "img" || attrOf(n, "aria-label") == "") {
				d.t.Error("a drawing has no label")
			}
		case "html":
			if attrOf(n, "lang") == "" {
				d.t.Error("the page has no language")
			}
		}
	})
	if h1 != 1 {
		d.t.Errorf("%d h1, want 1", h1)
	}
	for _, bad := range []string{"NaN", "%!", "ZgotmplZ", "<no value>", "@import", "url(http"} {
		if strings.Contains(d.raw, bad) {
			d.t.Errorf("the page contains %q", bad)
		}
	}
}

func TestRunPage(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		o        reporttest.Options
		word     string
		sections []string
		lacks    []string
		says     []string
	}{
		{"pass", reporttest.Options{Seed: 1, Fault: "pause-worker", Verdict: "PASS"}, "PASS", []string{"properties", "timeline", "latency", "faults", "environment"}, []string{"violations"},
			[]string{"No violation in", "stale writes refused", "Faults other than pause-worker", "proven", "p99 lock wait"}},
		{"steady", reporttest.Options{Seed: 2, Verdict: "PASS", Locks: 1}, "PASS", []string{"timeline"}, nil, []string{"This run injected no fault", "Faults other than steady."}},
		{"fail", reporttest.Options{Seed: 2, Fault: "pause-worker", Broken: reporttest.SinkNoTokenCheck, Locks: 3, Hold: 200 * time.Millisecond, TTL: 4 * time.Second, Verdict: "FAIL"}, "FAIL", []string{"violations", "violation-P3-1"}, nil,
			[]string{"after it had seen token", "The sink's ledger", "broken/sink-no-token-check", "Start at the first violation"}},
		{"invalid", reporttest.Options{Seed: 4, Fault: "pause-worker", Unproven: true, Verdict: "INVALID"}, "INVALID", []string{"why"}, []string{"violations"}, []string{"is not proven to have taken hold", "not proven", "Repeat the run"}},
		{"unknown", reporttest.Options{Seed: 5, Fault: "kill-worker", Verdict: "UNKNOWN"}, "UNKNOWN", nil, nil, []string{"P2 did not finish", "Porcupine’s view"}},
		{"not checked", reporttest.Options{Seed: 7, Fault: "lost-replies"}, "NOT CHECKED", nil, []string{"violations"}, []string{"fencepost check runs/", "judge nothing", "no lease was taken over"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := makeRun(t, tc.o)
			path, err := WriteRun(context.Background(), dir)
			if err != nil {
				t.Fatal(err)
			}
			d := readPage(t, path)
			d.selfContained()
			if got := text(d.byID("h-verdict")); got != tc.word {
				t.Errorf("verdict %q, want %q", got, tc.word)
			}
			for _, id := range tc.sections {
				d.byID(id)
			}
			for _, id := range tc.lacks {
				if strings.Contains(d.raw, `id="`+id+`"`) {
					t.Errorf("the page has a section %q", id)
				}
			}
			all := text(d.root)
			for _, s := range tc.says {
				if !strings.Contains(all, s) {
					t.Errorf("the page does not say %q", s)
				}
			}
			if n := d.count("svg", "timeline"); n < 7 {
				t.Errorf("%d charts in the timeline", n)
			}
			for _, f := range []string{OperationsFile, LatencyFile, TimelineFile, JSONFile, "plots/cycles.svg", "plots/outcomes.svg", "plots/latency-lock.svg", "plots/holders.svg"} {
				if st, err := os.Stat(filepath.Join(dir, f)); err != nil || st.Size() == 0 {
					t.Errorf("%s: %v", f, err)
				}
			}
		})
	}
}

func TestFailingPropertyLinksToItsViolation(t *testing.T) {
	t.Parallel()
	dir := makeRun(t, reporttest.Options{Seed: 3, Fault: "pause-worker", Broken: reporttest.TwoHolders, Locks: 3, Hold: 200 * time.Millisecond, TTL: 4 * time.Second, Verdict: "FAIL"})
	path, err := WriteRun(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	d := readPage(t, path)
	linked := false
	doc{t, d.byID("properties"), ""}.each("a", func(n *html.Node) { linked = linked || attrOf(n, "href") == "#violation-P8-1" })
	if !linked {
		t.Error("P8 does not link to its violation")
	}
	v := d.byID("violation-P8-1")
	if n := d.count("svg", "violation-P8-1"); n != 1 {
		t.Errorf("%d drawings, want 1", n)
	}
	if !strings.Contains(text(v), "both entitled to lock-") {
		t.Error("the drawing does not mark the overlap")
	}
	where := regexp.MustCompile(`history/w\d\.1\.jsonl:\d+`)
	if n := len(where.FindAllString(text(v), -1)); n < 4 {
		t.Errorf("%d places in the histories, want at least 4", n)
	}
}

func TestSameRunSameBytes(t *testing.T) {
	t.Parallel()
	dir := makeRun(t, reporttest.Options{Seed: 1, Fault: "kill-worker", Verdict: "PASS"})
	read := func() []byte {
		path, err := WriteRun(context.Background(), dir)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if !bytes.Equal(read(), read()) {
		t.Error("a second report of the same files differs")
	}
}

func TestLargeRun(t *testing.T) {
	t.Parallel()
	dir := makeRun(t, reporttest.Options{Seed: 8, Fault: "pause-worker", Verdict: "PASS", Phase: 13 * time.Second, Workers: 8, Clients: 4, Locks: 32})
	h, err := history.ReadDir(filepath.Join(dir, rundir.HistoryDir))
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Events) < 100_000 {
		t.Fatalf("%d events do not test much", len(h.Events))
	}
	path, err := WriteRun(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if st.Size() > 3_000_000 {
		t.Errorf("the page has %d bytes, want less than 3 MB", st.Size())
	}
	t.Logf("%d events, %d bytes", len(h.Events), st.Size())
}

func TestIncompleteRuns(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		spoil func(t *testing.T, dir string)
		says  string
	}{
		{"no run.json", func(t *testing.T, dir string) { remove(t, dir, rundir.InfoFile) }, "what was run is not known"},
		{"torn run.json", func(t *testing.T, dir string) { write(t, dir, rundir.InfoFile, "{") }, "run.json"},
		{"torn verdict.json", func(t *testing.T, dir string) { write(t, dir, rundir.VerdictFile, "{") }, "the verdict cannot be read"},
		{"malformed history", func(t *testing.T, dir string) { write(t, dir, "history/w1.1.jsonl", "nonsense\n") }, "w1.1.jsonl:1"},
		{"no history", func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, rundir.HistoryDir)); err != nil {
				t.Fatal(err)
			}
		}, "the history cannot be read"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := makeRun(t, reporttest.Options{Seed: 4, Fault: "pause-worker", Verdict: "PASS"})
			tc.spoil(t, dir)
			path, err := WriteRun(context.Background(), dir)
			var inc *IncompleteError
			if !errors.As(err, &inc) || path == "" {
				t.Fatalf("path %q, error %v, want a path and an *IncompleteError", path, err)
			}
			d := readPage(t, path)
			d.selfContained()
			if s := text(d.root); !strings.Contains(s, "This report is incomplete") || !strings.Contains(s, tc.says) {
				t.Errorf("the page does not say %q", tc.says)
			}
			if strings.Contains(d.raw, filepath.Dir(dir)) {
				t.Error("the page names a directory of this machine")
			}
		})
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, dir, name, s string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(s), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestNoRun(t *testing.T) {
	t.Parallel()
	if _, err := WriteRun(context.Background(), t.TempDir()); !errors.Is(err, ErrNoRun) {
		t.Errorf("an empty directory: %v, want ErrNoRun", err)
	}
	if _, err := WriteRun(context.Background(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v, want ErrNotExist", err)
	}
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := WriteRun(context.Background(), file); err == nil {
		t.Error("a file passed for a directory")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := WriteRun(ctx, makeRun(t, reporttest.Options{Seed: 1})); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestShortHistories: a run that ended before anything happened has a page too.
func TestShortHistories(t *testing.T) {
	t.Parallel()
	head := `{"format":"fencepost-history","version":1,"run":"r","proc":"harness","pid":1,"host":"h","boot_id":"b","wall_time":"2025-01-01T00:00:00Z","ts":1,"drift_bound":0.01,"margin_base_ms":100}` + "\n"
	for name, body := range map[string]string{
		"header only":  "",
		"one phase":    `{"ts":5,"proc":"harness","type":"note","op":"phase","phase":"warmup"}` + "\n",
		"one invoke":   `{"ts":5,"proc":"w1.1/c1","id":1,"type":"invoke","op":"get","key":"r"}` + "\n",
		"one instant":  `{"ts":5,"proc":"w1.1/c1","id":1,"type":"invoke","op":"get","key":"r"}` + "\n" + `{"ts":5,"proc":"w1.1/c1","id":1,"type":"ok","op":"get","key":"r"}` + "\n",
		"one ns":       `{"ts":5,"proc":"w1.1/c1","id":1,"type":"invoke","op":"get","key":"r"}` + "\n" + `{"ts":6,"proc":"w1.1/c1","id":1,"type":"ok","op":"get","key":"r"}` + "\n",
		"a fault only": `{"ts":5,"proc":"harness","type":"note","op":"fault","fault":{"id":"f1","name":"partition","action":"inject"}}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, rundir.HistoryDir), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, dir, "history/harness.jsonl", head+body)
			if err := rundir.WriteJSON(filepath.Join(dir, rundir.InfoFile), rundir.Info{Run: "r"}); err != nil {
				t.Fatal(err)
			}
			path, err := WriteRun(context.Background(), dir)
			if err != nil {
				t.Fatal(err)
			}
			readPage(t, path).selfContained()
		})
	}
}

// TestHostileText: whatever a file says, it stays text.
func TestHostileText(t *testing.T) {
	t.Parallel()
	evil := `</script><script>alert(1)</script><img src=x onerror=alert(2)>"'` + "`"
	dir := makeRun(t, reporttest.Options{Seed: 2, Fault: "pause-worker", Verdict: "FAIL", Broken: reporttest.SinkNoTokenCheck, Locks: 3, Hold: 200 * time.Millisecond, TTL: 4 * time.Second})
	info, err := rundir.ReadInfo(dir)
	if err != nil {
		t.Fatal(err)
	}
	info.Scenario, info.Command, info.Run = evil, evil, evil
	info.Versions = map[string]string{evil: evil}
	if err := rundir.WriteJSON(filepath.Join(dir, rundir.InfoFile), info); err != nil {
		t.Fatal(err)
	}
	var res checker.Result
	b, err := os.ReadFile(filepath.Join(dir, rundir.VerdictFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &res); err != nil {
		t.Fatal(err)
	}
	res.Summary = evil
	for i := range res.Properties {
		p := &res.Properties[i]
		p.Title, p.Detail, p.Visualization, p.Encodings = evil, evil, "javascript:alert(3)", map[string]string{evil: evil}
		for j := range p.Violations {
			v := &p.Violations[j]
			v.Message, v.Key = evil, evil
			for k := range v.Events {
				v.Events[k].File = "../../" + evil
				v.Events[k].Event.Error, v.Events[k].Event.Proc = evil, evil
			}
		}
	}
	if err := rundir.WriteJSON(filepath.Join(dir, rundir.VerdictFile), res); err != nil {
		t.Fatal(err)
	}
	path, err := WriteRun(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	d := readPage(t, path)
	d.selfContained()
	d.each("", func(n *html.Node) {
		switch {
		case n.Data == "img":
			t.Error("an element was injected")
		case n.Data == "script" && strings.Contains(text(n), "alert(1)") && attrOf(n, "type") == "":
			t.Error("a script was injected")
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") {
				t.Errorf("a handler was injected: %s", a.Key)
			}
		}
	})
}

func TestCSVAndJSON(t *testing.T) {
	t.Parallel()
	dir := makeRun(t, reporttest.Options{Seed: 1, Fault: "pause-worker", Verdict: "PASS"})
	if _, err := WriteRun(context.Background(), dir); err != nil {
		t.Fatal(err)
	}
	h, err := history.ReadDir(filepath.Join(dir, rundir.HistoryDir))
	if err != nil {
		t.Fatal(err)
	}
	rows := readCSV(t, filepath.Join(dir, OperationsFile))
	if want := len(h.Operations()); len(rows)-1 != want {
		t.Errorf("%s has %d operations, want %d", OperationsFile, len(rows)-1, want)
	}
	var rep Report
	b, err := os.ReadFile(filepath.Join(dir, JSONFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &rep); err != nil {
		t.Fatal(err)
	}
	if rep.Verdict != checker.Pass || len(rep.Faults) != 1 || !rep.Faults[0].Proven || len(rep.Takeovers) == 0 {
		t.Errorf("report.json: verdict %s, faults %+v, %d takeovers", rep.Verdict, rep.Faults, len(rep.Takeovers))
	}
	lat := readCSV(t, filepath.Join(dir, LatencyFile))
	if len(lat)-1 != len(rep.Latencies) {
		t.Errorf("%s has %d rows, report.json %d", LatencyFile, len(lat)-1, len(rep.Latencies))
	}
	cycles := 0
	tl := readCSV(t, filepath.Join(dir, TimelineFile))
	col := slices.Index(tl[0], "cycles")
	for _, r := range tl[1:] {
		var n int
		if err := json.Unmarshal([]byte(r[col]), &n); err != nil {
			t.Fatal(err)
		}
		cycles += n
	}
	if cycles != rep.Counts.Cycles {
		t.Errorf("%s counts %d cycles, the checker %d", TimelineFile, cycles, rep.Counts.Cycles)
	}
}

func readCSV(t *testing.T, path string) [][]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	var out [][]string
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, row)
	}
}
