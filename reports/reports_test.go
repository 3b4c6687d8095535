package reports

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/internal/race"
	"fencepost/reports/measure"
	"fencepost/reports/reporttest"
)

func makeRun(t *testing.T, o reporttest.Options) string {
	t.Helper()
	if o.Phase == 0 {
		o.Phase = 3 * time.Second // enough of everything, and quick
	}
	if o.TTL == 0 {
		o.TTL = 3 * time.Second
	}
	dir, err := reporttest.Write(t.TempDir(), o)
	must(t, err)
	return dir
}

// must ends the test at an error that it is not about.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
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
	must(t, err)
	root, err := html.Parse(bytes.NewReader(b))
	must(t, err)
	return doc{t, root, string(b)}
}

// reported writes the report of a run and reads its page.
func reported(t *testing.T, dir string) doc {
	t.Helper()
	path, err := WriteRun(t.Context(), dir)
	must(t, err)
	return readPage(t, path)
}

// has fails unless a text has every part.
func has(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("it lacks %q; -v shows it", p)
			if testing.Verbose() {
				t.Log(text)
			}
		}
	}
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

var scripts = regexp.MustCompile(`(?s)<script\b.*?</script>`)

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
	told := scripts.ReplaceAllString(d.raw, "") // scripts and their data may say anything
	for _, bad := range []string{"NaN", "%!", "ZgotmplZ", "<no value>", "@import", "url(http"} {
		if strings.Contains(told, bad) {
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
		{"pass", reporttest.Options{Seed: 1, Fault: "pause-worker", Verdict: "PASS"}, "PASS",
			[]string{"properties", "timeline", "latency", "faults", "environment"}, []string{"violations"},
			[]string{"No violation in", "stale writes refused", "What this run exercised", "Other faults, other timing",
				"all processes ran on one host", "proven", "p99 lock wait"}},
		{"steady", reporttest.Options{Seed: 2, Verdict: "PASS", Locks: 1}, "PASS", []string{"timeline"}, nil,
			[]string{"This run injected no fault", "Faults: none was injected."}},
		{"fail", reporttest.Options{Seed: 2, Fault: "pause-worker", Broken: reporttest.SinkNoTokenCheck, Locks: 3,
			Hold: 200 * time.Millisecond, TTL: 4 * time.Second, Verdict: "FAIL"}, "FAIL", []string{"violations", "violation-P3-1"}, nil,
			[]string{"The sink accepted token ", "The sink's ledger", "broken/sink-no-token-check", "because worker w2 was paused for",
				"Read the likely cause, then the first violation"}},
		{"invalid", reporttest.Options{Seed: 4, Fault: "pause-worker", Unproven: true, Verdict: "INVALID"}, "INVALID", nil,
			[]string{"violations", "why"}, []string{"The run proves nothing: fault f1 (pause-worker) is not proven to have taken hold; ",
				"run it again."}},
		{"unknown", reporttest.Options{Seed: 5, Fault: "kill-worker", Verdict: "UNKNOWN"}, "UNKNOWN", nil, nil,
			[]string{"not everything was checked: P2: the search", "check it again", "Porcupine’s view"}},
		{"not checked", reporttest.Options{Seed: 7, Fault: "lost-replies"}, "NOT CHECKED", nil, []string{"violations"},
			[]string{"fencepost check runs/", "judge nothing"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := makeRun(t, tc.o)
			d := reported(t, dir)
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
			has(t, all, tc.says...)
			if n, curves := d.count("svg", "timeline"), strings.Count(d.raw, `<figure class="chart curves"`); n != 1 || curves < 3 ||
				d.count("noscript", "timeline") != 1 {
				t.Errorf("%d drawings and %d charts of curves in the timeline", n, curves)
			}
			for _, f := range []string{OperationsFile, LatencyFile, TimelineFile, JSONFile, "plots/phases.svg"} {
				if st, err := os.Stat(filepath.Join(dir, f)); err != nil || st.Size() == 0 {
					t.Errorf("%s: %v", f, err)
				}
			}
		})
	}
}

func TestFailingPropertyLinksToItsViolation(t *testing.T) {
	t.Parallel()
	dir := makeRun(t, reporttest.Options{Seed: 3, Fault: "pause-worker", Broken: reporttest.TwoHolders, Locks: 3,
		Hold: 200 * time.Millisecond, TTL: 4 * time.Second, Verdict: "FAIL"})
	d := reported(t, dir)
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
		must(t, err)
		b, err := os.ReadFile(path)
		must(t, err)
		return b
	}
	if !bytes.Equal(read(), read()) {
		t.Error("a second report of the same files differs")
	}
}

func TestLargeRun(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	dir := makeRun(t, reporttest.Options{Seed: 8, Fault: "pause-worker", Verdict: "PASS", Phase: 13 * time.Second, Workers: 8, Clients: 4,
		Locks: 32})
	h, err := history.ReadDir(filepath.Join(dir, rundir.HistoryDir))
	must(t, err)
	if len(h.Events) < 100_000 {
		t.Fatalf("%d events do not test much", len(h.Events))
	}
	path, err := WriteRun(context.Background(), dir)
	must(t, err)
	st, err := os.Stat(path)
	must(t, err)
	if st.Size() > 3_000_000 {
		t.Errorf("the page has %d bytes, want less than 3 MB", st.Size())
	}
	t.Logf("%d events, %d bytes", len(h.Events), st.Size())
}

// The page's answer is the verdict's; only the page knows on how many hosts the run was.
func TestAnswerOfARun(t *testing.T) {
	t.Parallel()
	told := &checker.Answer{What: "no violation in 9 operations", Exercised: []string{"1 fault, proven: clock"},
		NotExercised: []string{"takeovers: no lease was taken over"}}
	for cluster, host := range map[string]string{"local": "all processes ran on one host",
		"external": "workers: all of them ran on one host"} {
		r := &run{Verdict: &checker.Result{Verdict: checker.Pass, Answer: told}, Info: rundir.Info{Cluster: cluster}}
		a := r.Answer()
		if a.Sentence() != "no violation in 9 operations" || !slices.Equal(a.Exercised, told.Exercised) || len(a.NotExercised) != 2 ||
			!strings.Contains(a.NotExercised[1], host) {
			t.Errorf("%s: %+v", cluster, a)
		}
	}
	if len(told.NotExercised) != 1 {
		t.Error("the verdict was changed")
	}
	r := &run{Verdict: &checker.Result{Verdict: checker.Fail, Answer: &checker.Answer{What: "it broke", Because: "it was wet",
		Mechanisms: []string{"a", "b"}}}}
	if a := r.Answer(); a.Sentence() != "it broke, because it was wet" || len(a.Mechanisms) != 2 || a.NotExercised != nil {
		t.Errorf("%+v", a)
	}
	if a := (&run{}).Answer(); !strings.HasPrefix(a.Sentence(), "the history has not been checked") {
		t.Errorf("%+v", a)
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1\u202f000", 1234567: "1\u202f234\u202f567", -1000: "−1\u202f000"} {
		if got := measure.FormatCount(n); got != want {
			t.Errorf("count(%d) = %q, want %q", n, got, want)
		}
	}
	for v, want := range map[float64]string{0: "–", 0.942: "×0.94", 3.21: "×3.2", 27.4: "×27"} {
		if got := times(v); got != want {
			t.Errorf("times(%g) = %q, want %q", v, got, want)
		}
	}
	for in, want := range map[string]string{
		"porcupine.html": "porcupine.html", "viz/a.html": "viz/a.html", "": "", "../x": "", "/etc/passwd": "", "javascript:alert(1)": "",
		"//host/x": "", "a/../../b": "",
	} {
		if got := safeLink(in); got != want {
			t.Errorf("safeLink(%q) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{"": "", "/a/b/history/w1.1.jsonl": "history/w1.1.jsonl", "w1.1.jsonl": "history/w1.1.jsonl",
		"../../etc/x": "history/x"} {
		if got := relative(in); got != want {
			t.Errorf("relative(%q) = %q, want %q", in, got, want)
		}
	}
	for _, v := range []checker.Verdict{checker.Pass, checker.Fail, checker.Invalid, checker.Unknown, notChecked} {
		if w := BadgeOf(v); w.Word != string(v) || w.Icon == "" {
			t.Errorf("%s has no words: %+v", v, w)
		}
	}
}
