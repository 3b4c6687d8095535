//go:build browser

package serve

import (
	"context"
	"flag"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"fencepost/harness/record/progress"
	"fencepost/harness/record/rundir"
	"fencepost/internal/pagetest"
	"fencepost/reports"
	"fencepost/reports/reporttest"
)

var (
	picturesOf = flag.String("pictures-of", "", "a directory of runs: pictures of its pages are taken, see -pictures")
	pictures   = flag.String("pictures", "", "where pictures of pages go, to look at them")
)

func init() { runTests = pagetest.Main }

// open opens a page of a server, which needs nothing from elsewhere.
func open(t *testing.T, srv *httptest.Server, path string, s pagetest.Screen) *pagetest.Tab {
	t.Helper()
	return pagetest.Open(t, srv.URL+path, s, srv.URL+"/")
}

// picture writes the whole page as a picture.
func picture(p *pagetest.Tab, name string) {
	p.T.Helper()
	var b []byte
	p.Do(chromedp.FullScreenshot(&b, 100))
	if err := os.WriteFile(filepath.Join(*pictures, name+".png"), b, 0o644); err != nil {
		p.T.Fatal(err)
	}
}

// server serves a directory of runs on loopback.
func server(t *testing.T, runs string) *httptest.Server {
	t.Helper()
	stop, cancel := context.WithCancel(context.Background())
	s, err := New(Options{Runs: runs, Version: "test", Stop: stop})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s)
	t.Cleanup(func() { cancel(); srv.Close() })
	return srv
}

func TestPictures(t *testing.T) {
	if *pictures == "" || *picturesOf == "" {
		t.Skip("give -pictures DIR -pictures-of RUNS to take pictures of pages")
	}
	if err := os.MkdirAll(*pictures, 0o755); err != nil {
		t.Fatal(err)
	}
	srv := server(t, *picturesOf)
	list, _, _ := NewIndex(*picturesOf).List()
	pages := map[string]string{"list": "/", "benchmarks": "/benchmarks", "found": "/?q=kill&verdict=PASS", "none": "/?q=nothing-like-it"}
	var names []string
	for _, e := range list {
		if e.State == Running {
			pages["running"] = runPath(e.Name)
		}
		for state, name := range map[State]string{"FAIL": "failed", "PASS": "passed"} {
			if e.State == state && e.Report != "" && pages[name] == "" {
				pages[name] = runPath(e.Name) // the newest
			}
		}
		if e.Report != "" && !e.Bench() && len(names) < 3 {
			names = append(names, "run="+e.Name)
		}
	}
	pages["compare"] = "/compare?" + strings.Join(names[:2], "&")
	pages["compare3"] = "/compare?" + strings.Join(names, "&")
	for name, path := range pages {
		for kind, s := range map[string]pagetest.Screen{"light": pagetest.Wide, "dark": {W: 1280, H: 900, Dark: true},
			"narrow": {W: 390, H: 800}} {
			t.Run(name+"-"+kind, func(t *testing.T) { picture(open(t, srv, path, s), name+"-"+kind) })
		}
	}
}

// accessible: axe-core finds nothing that keeps somebody from using the page.
func accessible(p *pagetest.Tab, name string) {
	p.T.Helper()
	for _, f := range p.Axe() {
		p.T.Errorf("%s: %s", name, f)
	}
	if *pictures != "" {
		picture(p, "test-"+name)
	}
}

func shown(p *pagetest.Tab) string {
	p.T.Helper()
	return strings.Join(pagetest.Eval[[]string](p,
		`[].map.call(document.querySelectorAll('input[name=run][type=checkbox]'), function (b) { return b.value; })`), " ")
}

// From the list by search, filter and choice to a comparison; a run that is made
// meanwhile shows by itself, and what was chosen stays chosen.
func TestBrowserList(t *testing.T) {
	runs := t.TempDir()
	makeRun(t, runs, spec{name: "a", verdict: "PASS"})
	makeRun(t, runs, spec{name: "b", verdict: "FAIL", scenario: "pause-worker", system: "broken/no-fence", at: time.Minute, slow: 3})
	makeRun(t, runs, spec{name: "c", verdict: "PASS", scenario: "pause-worker", at: 2 * time.Minute})
	p := open(t, server(t, runs), "/", pagetest.Wide)
	if got := shown(p); got != "c b a" {
		t.Fatalf("the list shows %q", got)
	}
	accessible(p, "list")
	p.Do(chromedp.SendKeys("#q", "pause", chromedp.ByQuery))
	p.Until(`document.getElementById('count').textContent.startsWith('2 of 3')`)
	p.Do(chromedp.SetValue("#f-verdict", "FAIL", chromedp.ByQuery),
		chromedp.Evaluate(`document.getElementById('f-verdict').dispatchEvent(new Event('change', {bubbles: true}))`, nil))
	p.Until(`document.getElementById('count').textContent.startsWith('1 of 3')`)
	if at := pagetest.Eval[string](p, `location.search`); at != "?q=pause&verdict=FAIL" {
		t.Errorf("the address is %s", at)
	}
	p.Do(chromedp.Click(`input[value=b]`, chromedp.ByQuery))
	p.Do(chromedp.Navigate(pagetest.Eval[string](p, `location.origin + '/'`)))
	p.Until(`document.getElementById('live').hidden === false`)
	p.Do(chromedp.Click(`input[value=a]`, chromedp.ByQuery), chromedp.Click(`input[value=b]`, chromedp.ByQuery))
	makeRun(t, runs, spec{name: "d", verdict: "PASS", at: time.Hour})
	p.Until(`document.querySelector('input[value=d]') !== null`)
	if got := pagetest.Eval[string](p, `document.getElementById('compare-button').textContent`); got != "Compare 2 runs" {
		t.Errorf("after the list has changed the button says %q", got)
	}
	p.Do(chromedp.Click("#compare-button", chromedp.ByQuery))
	p.Until(`document.title.startsWith('Comparison of 2 runs') && document.querySelector('figure.curves canvas') !== null`)
	accessible(p, "compare")
}

// A run's page goes on with the run, also over a connection that breaks, shows every
// event once, and at the end what became of it.
func TestBrowserLive(t *testing.T) {
	runs := t.TempDir()
	l, dir := goesOn(t, runs, "a")
	halfWay(l)
	srv := server(t, runs)
	p := open(t, srv, "/runs/a/", pagetest.Wide)
	p.Until(`document.getElementById('connection').textContent === 'Following the run'`)
	p.Until(`document.querySelectorAll('#log li').length === 5`)
	l.Emit(progress.Event{Kind: progress.KindViolation, Violation: &progress.Violation{Property: "P3", Text: "the sink took an old token"}})
	l.Emit(progress.Event{Kind: progress.KindRates, Rates: &progress.Rates{Phase: "fault", Cycles: 12345, PerSecond: 80,
		Active: []string{"partition n2"}}})
	p.Until(`document.getElementById('t-violations').textContent === '1' && document.getElementById('t-cycles').textContent === '12\u202f345' && document.querySelector('.pill').textContent === 'partition n2'`)
	accessible(p, "live")
	srv.CloseClientConnections()
	l.Problem("slow")
	p.Until(`document.querySelectorAll('#log li').length === 7 && document.getElementById('log').lastChild.textContent.endsWith('slow')`)
	p.Forgive(srv.URL + "/events/a") // the browser tells of the broken connection
	l.Emit(progress.Event{Kind: progress.KindPhase, Phase: "recover"})
	p.Until(`document.querySelector('[data-stage=recover]').className === 'now' && document.querySelector('[data-stage=fault]').className === 'done'`)
	verdict := filepath.Join(makeRun(t, t.TempDir(), spec{name: "x", verdict: "FAIL"}), rundir.VerdictFile)
	must(t, os.Rename(verdict, filepath.Join(dir, rundir.VerdictFile)))
	l.Emit(progress.Event{Kind: progress.KindEnd})
	must(t, l.Close())
	p.Until(`document.getElementById('h-run').textContent === 'FAIL' && document.querySelectorAll('#h-props').length === 1`)
}

// A report is shown in a sandbox, where its script works.
func TestBrowserReport(t *testing.T) {
	dir, err := reporttest.Write(t.TempDir(), reporttest.Options{Seed: 2, Fault: "pause-worker", Verdict: "PASS", Locks: 3})
	must(t, err)
	_, err = reports.WriteRun(t.Context(), dir)
	must(t, err)
	p := open(t, server(t, filepath.Dir(dir)), runPath(filepath.Base(dir))+"report.html", pagetest.Wide)
	p.Until(`document.documentElement.classList.contains('has-js')`)
	if origin := pagetest.Eval[string](p, `self.origin`); origin != "null" {
		t.Errorf("a report has the origin %s", origin)
	}
}
