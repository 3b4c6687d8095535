//go:build browser

package browser

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"fencepost/internal/pagetest"
	"fencepost/reports"
	"fencepost/reports/reporttest"
)

// report makes a run and its page.
func report(t *testing.T, o reporttest.Options) string {
	t.Helper()
	dir, err := reporttest.Write(t.TempDir(), o)
	must(t, err)
	path, err := reports.WriteRun(t.Context(), dir)
	must(t, err)
	return path
}

var (
	passing = reporttest.Options{Seed: 1, Fault: "pause-worker", Verdict: "PASS", Phase: 3 * time.Second, TTL: 3 * time.Second}
	failing = reporttest.Options{Seed: 2, Fault: "pause-worker", Broken: reporttest.SinkNoTokenCheck, Locks: 3,
		Hold: 200 * time.Millisecond, Phase: 4 * time.Second, TTL: 4 * time.Second, Verdict: "FAIL"}
)

func jobs(t *testing.T) string {
	t.Helper()
	dir, err := reporttest.WriteJobs(t.TempDir(), 1)
	must(t, err)
	path, err := reports.WriteRun(t.Context(), dir)
	must(t, err)
	return path
}

// seen is the stretch of the run in sight, in µs.
func (p tab) seen() (from, to float64) {
	p.T.Helper()
	v := pagetest.Eval[[]float64](p.Tab, `[+document.getElementById('tl-plot').dataset.from, +document.getElementById('tl-plot').dataset.to]`)
	return v[0], v[1]
}

func (p tab) shown() int {
	p.T.Helper()
	return pagetest.Eval[int](p.Tab, `+document.getElementById('tl-shown').dataset.n`)
}

// box is where an element is on the screen, in CSS pixels.
func (p tab) box(selector string) (x, y, w, h float64) {
	p.T.Helper()
	v := pagetest.Eval[[]float64](p.Tab,
		fmt.Sprintf(`(function (b) { return [b.x, b.y, b.width, b.height]; })(document.querySelector(%q).getBoundingClientRect())`, selector))
	return v[0], v[1], v[2], v[3]
}

func (p tab) mouse(kind input.MouseType, x, y float64, clicks int64) {
	p.T.Helper()
	e := input.DispatchMouseEvent(kind, x, y).WithButton(input.Left).WithClickCount(clicks)
	if kind == input.MouseMoved {
		e = e.WithButtons(1)
	}
	p.Do(e)
}

// toTimeline brings the time line into sight.
func (p tab) toTimeline() {
	p.T.Helper()
	p.timeline()
	p.Do(chromedp.Evaluate(`document.getElementById('tl').scrollIntoView()`, nil))
	p.Painted()
}

func (p tab) inSight(selector string) bool {
	p.T.Helper()
	return pagetest.Eval[bool](p.Tab,
		fmt.Sprintf(`(function (b) { return b.height > 0 && b.top < innerHeight && b.bottom > 0; })(document.querySelector(%q).getBoundingClientRect())`, selector))
}

// painting counts the pixels of the lanes' canvas that are drawn.
const painting = `(function () {
	var c = document.getElementById('tl-canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, n = 0;
	for (var i = 3; i < d.length; i += 4) { if (d[i]) { n++; } }
	return n;
})()`

func TestZoom(t *testing.T) {
	t.Parallel()
	p := open(t, report(t, passing), pagetest.Wide)
	p.toTimeline()
	from, to := p.seen()
	whole := to - from
	if from != 0 || whole < 6e6 {
		t.Fatalf("at first %v to %v µs are in sight", from, to)
	}
	if n := pagetest.Eval[int](p.Tab, painting); n < 1000 {
		t.Fatalf("%d pixels of the lanes are drawn", n)
	}
	x, y, w, _ := p.box("#tl-rate")
	drag := func(a, b float64) {
		p.mouse(input.MousePressed, x+a*w, y+60, 1)
		p.mouse(input.MouseMoved, x+(a+b)/2*w, y+60, 0)
		p.mouse(input.MouseMoved, x+b*w, y+60, 0)
		p.mouse(input.MouseReleased, x+b*w, y+60, 1)
	}
	drag(0.4, 0.6)
	from, to = p.seen()
	if to-from > whole*0.3 || to-from < whole*0.1 || from < whole*0.2 {
		t.Errorf("a drag over a fifth of the time line shows %v to %v of %v µs", from, to, whole)
	}
	ticks := pagetest.Eval[string](p.Tab, `document.getElementById('tl-range').textContent`)
	p.Do(input.DispatchMouseEvent(input.MouseWheel, x+0.5*w, y+60).WithDeltaX(0).WithDeltaY(-200))
	p.Until(fmt.Sprintf(`+document.getElementById('tl-plot').dataset.to - +document.getElementById('tl-plot').dataset.from < %v`,
		(to-from)*0.9))
	if now := pagetest.Eval[string](p.Tab, `document.getElementById('tl-range').textContent`); now == ticks {
		t.Errorf("after the wheel the range is still %s", now)
	}
	p.mouse(input.MousePressed, x+0.5*w, y+60, 1)
	p.mouse(input.MouseReleased, x+0.5*w, y+60, 1)
	p.mouse(input.MousePressed, x+0.5*w, y+60, 2)
	p.mouse(input.MouseReleased, x+0.5*w, y+60, 2)
	if from, to = p.seen(); to-from != whole {
		t.Errorf("a double click shows %v to %v of %v µs", from, to, whole)
	}
	for _, k := range []struct {
		key  string
		want func(from, to float64) bool
	}{
		{"+", func(from, to float64) bool { return to-from < whole*0.51 }},
		{kb.ArrowRight, func(from, to float64) bool { return from > whole*0.3 }},
		{"-", func(from, to float64) bool { return to-from == whole }},
		{"+", func(from, to float64) bool { return to-from < whole*0.51 }},
		{"0", func(from, to float64) bool { return from == 0 && to-from == whole }},
	} {
		p.Do(chromedp.KeyEvent(k.key))
		if from, to := p.seen(); !k.want(from, to) {
			t.Errorf("after key %q %v to %v of %v µs are in sight", k.key, from, to, whole)
		}
	}
	p.Do(chromedp.Click("#tl-in", chromedp.ByQuery))
	if from, to = p.seen(); to-from > whole*0.51 {
		t.Errorf("the button zooms to %v of %v µs", to-from, whole)
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	p := open(t, report(t, failing), pagetest.Wide)
	p.toTimeline()
	all := p.shown()
	if all == 0 {
		t.Fatal("no operation is shown")
	}
	less := func(what string, do, undo chromedp.Action) {
		t.Helper()
		p.Do(do)
		if n := p.shown(); n >= all || n == 0 {
			t.Errorf("%s: %d of %d operations are shown", what, n, all)
		}
		p.Painted()
		p.Do(undo)
		if n := p.shown(); n != all {
			t.Errorf("without %s: %d of %d operations are shown", what, n, all)
		}
	}
	click := func(selector string) chromedp.Action { return chromedp.Click(selector, chromedp.ByQuery) }
	choose := func(id, value string) chromedp.Action {
		return chromedp.Evaluate(fmt.Sprintf(`(function (s) { s.value = %q; s.dispatchEvent(new Event('change')); })(document.getElementById(%q))`, value, id), nil)
	}
	less("outcome ok hidden", click("#tl-outcomes button"), click("#tl-outcomes button"))
	less("only one worker", click("#tl-workers button:nth-child(2)"), click("#tl-workers button:nth-child(2)"))
	less("a kind hidden", click("#tl-kinds button[aria-pressed=true]"), click("#tl-kinds button[aria-pressed=false]:not(:first-child)"))
	less("only one lock", choose("tl-lane", "0"), choose("tl-lane", "-1"))
	less("only violations", click("#tl-only"), click("#tl-only"))
	p.Do(choose("tl-by", "proc"))
	p.Painted()
	if n := p.shown(); n != all {
		t.Errorf("by process %d of %d operations are shown", n, all)
	}
}

// TestVerdictToViolation: the violation's text and its place in the time line are two
// clicks away from the verdict at most, and each leads to the other.
func TestVerdictToViolation(t *testing.T) {
	t.Parallel()
	p := open(t, report(t, failing), pagetest.Wide)
	p.timeline()
	p.Do(chromedp.Click(".jump a", chromedp.ByQuery)) // one
	p.Until(`document.querySelector('#violation-P3-1').getBoundingClientRect().top < innerHeight / 2`)
	p.Do(chromedp.Click("#violation-P3-1 .tl-show", chromedp.ByQuery)) // two
	p.Until(`document.getElementById('tl-detail').textContent.indexOf('P3, violation 1') >= 0`)
	if !p.inSight("#tl-plot") {
		t.Error("the time line is not in sight")
	}
	whole := pagetest.Eval[float64](p.Tab, `JSON.parse(document.getElementById('tl-data').textContent).end`)
	if from, to := p.seen(); to-from >= whole*0.99 {
		t.Errorf("%v of %v µs are in sight: not the violation's window", to-from, whole)
	}
	// Back to its text, from a row of its table to the event, and from a marker to all of it.
	p.Do(chromedp.Click("#tl-detail .tl-read", chromedp.ByQuery))
	p.Until(`document.querySelector('#violation-P3-1').getBoundingClientRect().top < innerHeight / 2`)
	p.Do(chromedp.Click("#violation-P3-1 table.events tbody tr .tl-link", chromedp.ByQuery))
	p.Until(`document.querySelectorAll('#tl-detail h3').length === 2`)
	if text := pagetest.Eval[string](p.Tab, `document.getElementById('tl-detail').textContent`); !strings.Contains(text, "history/w") ||
		!strings.Contains(text, "token") {
		t.Errorf("the pane says %s", text)
	}
	p.Do(chromedp.KeyEvent(kb.Escape), chromedp.KeyEvent("0"))
	p.Until(`document.getElementById('tl-detail').textContent === '' && document.querySelector('.tl-marker')`)
	p.Painted()
	p.Do(chromedp.Click(".tl-marker", chromedp.ByQuery))
	p.Until(`document.getElementById('tl-detail').textContent.indexOf('violation') >= 0`)
	p.Do(chromedp.KeyEvent("n"))
	p.Until(`document.querySelector('.tl-marker.on')`)
	// And straight from the verdict.
	p.Do(chromedp.Evaluate(`scrollTo(0, 0)`, nil), chromedp.Click("[data-show-violation]", chromedp.ByQuery))
	p.Until(`document.getElementById('tl-detail').textContent.indexOf('P3, violation 1') >= 0`)
}

// TestPointAndKeys: what is under the pointer is told, and the keys go through the operations.
func TestPointAndKeys(t *testing.T) {
	t.Parallel()
	p := open(t, jobs(t), pagetest.Wide)
	p.toTimeline()
	x, y, w, _ := p.box("#tl-canvas")
	// The upper edge of the first lane is its shard's owner.
	p.Do(input.DispatchMouseEvent(input.MouseMoved, x+0.5*w, y+12))
	p.Until(`/owns shard/.test(document.getElementById('tip').textContent)`)
	p.mouse(input.MousePressed, x+0.5*w, y+12, 1)
	p.mouse(input.MouseReleased, x+0.5*w, y+12, 1)
	p.Until(`/ended by/.test(document.getElementById('tl-detail').textContent)`)
	p.Do(chromedp.KeyEvent("."))
	p.Until(`/recorded at/.test(document.getElementById('tl-detail').textContent)`)
	before := pagetest.Eval[string](p.Tab, `document.getElementById('tl-detail').textContent`)
	p.Do(chromedp.KeyEvent("."))
	if now := pagetest.Eval[string](p.Tab, `document.getElementById('tl-detail').textContent`); now == before {
		t.Errorf("the next operation is the same: %s", now)
	}
}

// TestEverywhere: no error, nothing wider than the screen, nothing that axe finds serious.
func TestEverywhere(t *testing.T) {
	t.Parallel()
	fail, job := report(t, failing), jobs(t)
	for _, c := range []struct {
		name, path string
		s          pagetest.Screen
	}{
		{"fail", fail, pagetest.Wide},
		{"fail dark", fail, pagetest.Screen{W: 1280, H: 900, Dark: true}},
		{"fail narrow", fail, pagetest.Screen{W: 390, H: 844, Density: 2}},
		{"jobs narrow dark", job, pagetest.Screen{W: 390, H: 844, Dark: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := open(t, c.path, c.s)
			p.timeline()
			p.Painted()
			if pagetest.Eval[bool](p.Tab, `document.documentElement.scrollWidth > innerWidth + 1`) {
				t.Errorf("the page is %d px wide", pagetest.Eval[int](p.Tab, `document.documentElement.scrollWidth`))
			}
			if pagetest.Eval[bool](p.Tab, `!!document.querySelector('[data-show-violation]')`) {
				p.Do(chromedp.Click("[data-show-violation]", chromedp.ByQuery))
				p.Painted()
			}
			for _, finding := range p.Axe() {
				t.Error(finding)
			}
		})
	}
}

// TestCurves: every chart is drawn, and says the numbers at a place that keys choose.
func TestCurves(t *testing.T) {
	t.Parallel()
	p := open(t, report(t, passing), pagetest.Wide)
	p.timeline()
	p.Until(`document.querySelectorAll('.curves').length > 4 && [].every.call(document.querySelectorAll('.curves'), function (f) { return f.querySelector('canvas'); })`)
	p.Do(chromedp.Focus(".curves", chromedp.ByQuery), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight))
	p.Until(`/at .* s · before/.test(document.querySelector('.curves .u-legend').textContent) && /p99.* ms/.test(document.querySelector('.curves .u-legend').textContent)`)
	// The place is the same in all of them.
	p.Until(`/p99.* ms/.test(document.querySelectorAll('.curves .u-legend')[2].textContent)`)
}

// TestStill: without scripts and on paper the drawings that need none are there.
func TestStill(t *testing.T) {
	t.Parallel()
	path := report(t, passing)
	p := open(t, path, pagetest.Screen{W: 1280, H: 900, Still: true})
	if shown := p.laidOut("#tl"); shown {
		t.Error("without scripts the interactive time line is there")
	}
	if !p.laidOut("#timeline figure.still svg") || !p.laidOut("#timeline noscript .note") {
		t.Error("without scripts there is no drawing of the run's phases, or no word of what is not there")
	}
	if p.laidOut("#timeline .curves") {
		t.Error("without scripts there are charts that nobody draws")
	}
	p = open(t, path, pagetest.Screen{W: 1280, H: 900, Print: true, Dark: true})
	p.timeline()
	if p.laidOut("#tl") || !p.laidOut("#timeline figure.still svg") || !p.laidOut("#timeline .curves canvas") {
		t.Error("on paper the time line is the interactive one")
	}
	var pdf []byte
	p.Do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		pdf, _, err = page.PrintToPDF().WithPrintBackground(true).Do(ctx)
		return err
	}))
	if len(pdf) < 20_000 {
		t.Errorf("printed it has %d bytes", len(pdf))
	}
}

// laidOut says whether an element takes room. It works with scripts off.
func (p tab) laidOut(selector string) bool {
	p.T.Helper()
	out := false
	p.Do(chromedp.ActionFunc(func(ctx context.Context) error {
		out = visible(ctx, selector)
		return nil
	}))
	return out
}

// visible says whether the first such element has a box, without scripts.
func visible(ctx context.Context, selector string) bool {
	doc, err := dom.GetDocument().Do(ctx)
	if err != nil {
		return false
	}
	node, err := dom.QuerySelector(doc.NodeID, selector).Do(ctx)
	if err != nil || node == 0 {
		return false
	}
	_, err = dom.GetBoxModel().WithNodeID(node).Do(ctx) // an error: it has no box
	return err == nil
}

var openBound = flag.Duration("open.bound", 0, "fail if the page of 100,000 events takes longer than this to open")

// TestBigPage: 100,000 events open and can be worked with. How fast is checked only
// with -open.bound, on a quiet machine.
func TestBigPage(t *testing.T) {
	if *openBound == 0 {
		t.Parallel()
	}
	path := report(t, reporttest.Options{Seed: 8, Fault: "pause-worker", Verdict: "PASS", Phase: 13 * time.Second, Workers: 8, Clients: 4,
		Locks: 32})
	p := open(t, path, pagetest.Wide)
	p.toTimeline()
	took := pagetest.Eval[float64](p.Tab, `performance.getEntriesByType('navigation')[0].loadEventEnd`)
	fmt.Printf("100,000 events open in %.0f ms\n", took)
	if *openBound > 0 && took > float64(openBound.Milliseconds()) {
		t.Errorf("the page took %.0f ms to open, want at most %s", took, *openBound)
	}
	if n := p.shown(); n < 30_000 {
		t.Fatalf("%d operations", n)
	}
	p.Do(chromedp.Evaluate(`document.getElementById('tl-plot').focus()`, nil), chromedp.KeyEvent("+"), chromedp.KeyEvent("+"))
	p.Painted()
	if n := pagetest.Eval[int](p.Tab, painting); n < 1000 {
		t.Errorf("%d pixels of the lanes are drawn", n)
	}
}
