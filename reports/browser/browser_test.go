//go:build browser

package browser

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"fencepost/internal/pagetest"
)

func TestMain(m *testing.M) { os.Exit(pagetest.Main(m)) }

// must ends the test at an error that it is not about.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tab is a report.
type tab struct{ *pagetest.Tab }

// open opens a file, which needs nothing but itself.
func open(t *testing.T, path string, s pagetest.Screen) tab {
	t.Helper()
	u := (&url.URL{Scheme: "file", Path: path}).String()
	return tab{pagetest.Open(t, u, s, u)}
}

// timeline waits for the time line to be there.
func (p tab) timeline() {
	p.T.Helper()
	p.Until(`document.getElementById('tl-plot') && document.getElementById('tl-plot').dataset.ready === 'yes'`)
}

var (
	shotsRun = flag.String("shots.run", "", "make pictures of this run's report")
	shotsOut = flag.String("shots.out", "", "directory for the pictures")
	shotsAll = flag.Bool("shots.all", false, "picture the page on several screens, to look at it")
)

// maxPicture bounds a picture's bytes: everybody who clones the project gets them.
const maxPicture = 300_000

// TestScreenshots makes the pictures of docs/img: the verdict, and the first violation in the time line.
func TestScreenshots(t *testing.T) {
	if *shotsRun == "" {
		t.Skip("give -shots.run RUN_DIR and -shots.out DIR to make pictures")
	}
	report, err := filepath.Abs(filepath.Join(*shotsRun, "report.html"))
	must(t, err)
	must(t, os.MkdirAll(*shotsOut, 0o755))
	if *shotsAll {
		look(t, report)
		return
	}
	for suffix, dark := range map[string]bool{".png": false, "-dark.png": true} {
		top := open(t, report, pagetest.Screen{W: 1280, H: 830, Dark: dark})
		top.timeline()
		save(t, "verdict"+suffix, top.picture())
		p := open(t, report, pagetest.Screen{W: 1280, H: 1180, Dark: dark})
		p.timeline()
		p.firstViolation()
		save(t, "report"+suffix, p.picture())
	}
}

// firstViolation shows the first violation in the time line, of a run without any its whole.
func (p tab) firstViolation() {
	p.T.Helper()
	if pagetest.Eval[bool](p.Tab, `!!document.querySelector('[data-show-violation]')`) {
		p.Do(chromedp.Click(`[data-show-violation]`, chromedp.ByQuery))
	} else {
		p.Do(chromedp.Evaluate(`document.getElementById('timeline').scrollIntoView()`, nil))
	}
	p.Painted()
}

// look pictures a page as different readers have it.
func look(t *testing.T, report string) {
	for name, s := range map[string]pagetest.Screen{"wide": pagetest.Wide, "dark": {W: 1280, H: 900, Dark: true},
		"narrow": {W: 390, H: 844, Density: 2}} {
		p := open(t, report, s)
		p.timeline()
		p.Painted()
		save(t, name+"-top.png", p.picture())
		p.Do(chromedp.Evaluate(`document.getElementById('timeline').scrollIntoView()`, nil))
		p.Painted()
		save(t, name+"-timeline.png", p.picture())
		if !pagetest.Eval[bool](p.Tab, `!!document.querySelector('[data-show-violation]')`) {
			p.Do(chromedp.Evaluate(`document.getElementById('tl-plot').focus()`, nil), chromedp.KeyEvent("+"), chromedp.KeyEvent("+"),
				chromedp.KeyEvent("+"), chromedp.KeyEvent("+"), chromedp.KeyEvent("+"), chromedp.KeyEvent("."))
			p.Painted()
			save(t, name+"-zoomed.png", p.picture())
			continue
		}
		p.firstViolation()
		save(t, name+"-violation.png", p.picture())
	}
}

// picture is what the screen shows.
func (p tab) picture() []byte {
	p.T.Helper()
	var b []byte
	p.Do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		b, err = page.CaptureScreenshot().Do(ctx)
		return err
	}))
	return b
}

func save(t *testing.T, name string, b []byte) {
	t.Helper()
	if len(b) > maxPicture && !*shotsAll {
		t.Errorf("%s has %d bytes, want at most %d", name, len(b), maxPicture)
	}
	must(t, os.WriteFile(filepath.Join(*shotsOut, name), b, 0o644))
	fmt.Printf("%s: %d kB\n", name, len(b)/1000)
}
