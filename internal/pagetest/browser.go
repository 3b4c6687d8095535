//go:build browser

package pagetest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// noBrowser, set to 1, skips what needs a browser.
const noBrowser = "FENCEPOST_NO_BROWSER"

func without() bool { return os.Getenv(noBrowser) == "1" }

// Main runs the tests of a package, ends the browser that they shared, and returns the
// exit code.
func Main(m *testing.M) int {
	if without() {
		fmt.Printf("SKIPPED: no page is opened in a browser (%s=1)\n", noBrowser)
	}
	code := m.Run()
	if err := end(); err != nil {
		fmt.Println("The browser does not end:", err)
		code = max(code, 1)
	}
	return code
}

// end ends the browser, if there is one.
var end = func() error { return nil }

// browser is the one process that all tests share.
var browser = sync.OnceValues(func() (context.Context, error) {
	path, err := find()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "fencepost-browser-")
	if err != nil {
		return nil, err
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.UserDataDir(dir), chromedp.Headless, chromedp.NoFirstRun, chromedp.DisableGPU,
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-sync", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-renderer-backgrounding", true), chromedp.Flag("disable-backgrounding-occluded-windows", true),
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("force-color-profile", "srgb"), chromedp.WSURLReadTimeout(time.Minute),
	}
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	alloc, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(alloc, chromedp.WithBrowserOption(chromedp.WithDialTimeout(time.Minute)))
	if err := chromedp.Run(ctx); err != nil {
		cancel()
		stop()
		return nil, errors.Join(fmt.Errorf("%s does not start: %w", path, err), os.RemoveAll(dir))
	}
	end = func() error {
		// Asked to, it ends its children too: a killed one leaves them writing into dir.
		soon, cancelSoon := context.WithTimeout(ctx, 10*time.Second)
		defer cancelSoon()
		err := chromedp.Cancel(soon)
		cancel()
		stop()
		return errors.Join(err, os.RemoveAll(dir))
	}
	return ctx, nil
})

func find() (string, error) {
	names := []string{"chromium", "chromium-browser", "google-chrome"}
	for _, n := range names {
		if p, err := exec.LookPath(n); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("no Chromium: none of %s is in PATH; as root on Debian or Ubuntu: scripts/ensure-tools --browser, elsewhere install it with the system's package manager; or set %s=1 to do without", strings.Join(names, ", "), noBrowser)
}

// axe-core 4.14.1, as npm has it.
//
//go:embed testdata/axe-core/axe.min.js
var axeSource string

// Axe lists what axe-core finds serious or critical on the page.
func (p *Tab) Axe() []string {
	p.T.Helper()
	p.Do(chromedp.Evaluate(axeSource+";true", nil))
	return Eval[[]string](p, `axe.run(document, {resultTypes: ['violations']}).then(function (r) {
		return r.violations.filter(function (v) { return v.impact === 'serious' || v.impact === 'critical'; }).map(function (v) {
			return v.impact + ': ' + v.help + ' (' + v.id + '): ' + v.nodes.slice(0, 3).map(function (n) {
				return n.target.join(' ') + ' ' + n.html.slice(0, 160) + ' ' + n.failureSummary;
			}).join(' | ');
		});
	})`)
}

// patience bounds what a test does with one page: less than the time that go test has,
// so that the failure says what did not come.
const patience = 4 * time.Minute

// Screen is how a page is looked at.
type Screen struct {
	W, H    int64 // in CSS pixels; below 600 wide it is a phone's
	Dark    bool
	Print   bool
	Still   bool    // scripts off
	Density float64 // pixels of the screen for one of CSS; 0 is 1
}

// Wide is a usual screen.
var Wide = Screen{W: 1280, H: 900}

// Tab is a page.
type Tab struct {
	T       *testing.T
	ctx     context.Context
	allowed []string

	mu     sync.Mutex
	errors []string
}

// Open opens an address in a window of its own, which is closed with the test. What
// goes wrong on the page fails the test, as does a request for an address that begins
// neither with data: nor with one of allowed.
func Open(t *testing.T, url string, s Screen, allowed ...string) *Tab {
	t.Helper()
	p := newTab(t, allowed)
	t.Cleanup(func() {
		for _, e := range p.wrong() {
			t.Errorf("%s: %s", url, e)
		}
	})
	p.visit(url, s)
	return p
}

// newTab opens an empty window and listens.
func newTab(t *testing.T, allowed []string) *Tab {
	t.Helper()
	if without() {
		t.Skipf("SKIPPED: no page is opened in a browser (%s=1)", noBrowser)
	}
	b, err := browser()
	if err != nil {
		t.Fatal(err)
	}
	var id target.ID
	if err := chromedp.Run(b, chromedp.ActionFunc(func(ctx context.Context) (err error) {
		id, err = target.CreateTarget("about:blank").WithNewWindow(true).Do(cdp.WithExecutor(ctx, chromedp.FromContext(ctx).Browser))
		return err
	})); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(b, chromedp.WithTargetID(id))
	t.Cleanup(cancel)
	ctx, stop := context.WithTimeout(ctx, patience)
	t.Cleanup(stop)
	p := &Tab{T: t, ctx: ctx, allowed: append([]string{"data:"}, allowed...)}
	chromedp.ListenTarget(ctx, p.listen)
	return p
}

func (p *Tab) visit(url string, s Screen) {
	p.T.Helper()
	scheme, media := "light", ""
	if s.Dark {
		scheme = "dark"
	}
	if s.Print {
		media = "print"
	}
	p.Do(
		network.Enable(), log.Enable(),
		emulation.SetDeviceMetricsOverride(s.W, s.H, max(s.Density, 1), s.W < 600),
		emulation.SetEmulatedMedia().WithMedia(media).WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
		emulation.SetScriptExecutionDisabled(s.Still), emulation.SetFocusEmulationEnabled(true),
		chromedp.Navigate(url),
	)
}

func (p *Tab) listen(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	add := func(format string, args ...any) { p.errors = append(p.errors, fmt.Sprintf(format, args...)) }
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		add("exception: %s", e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type != runtime.APITypeLog && e.Type != runtime.APITypeInfo && e.Type != runtime.APITypeDebug {
			var words []string
			for _, a := range e.Args {
				words = append(words, string(a.Value)+a.Description)
			}
			add("console.%s: %s", e.Type, strings.Join(words, " "))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError {
			add("log: %s %s", e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		u := e.Request.URL
		if !slices.ContainsFunc(p.allowed, func(prefix string) bool { return strings.HasPrefix(u, prefix) }) {
			add("the page asks for %s", u)
		}
	}
}

// wrong is what went wrong so far.
func (p *Tab) wrong() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.errors)
}

// Forgive forgets what went wrong so far and contains a text: what a test brought about.
func (p *Tab) Forgive(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errors = slices.DeleteFunc(p.errors, func(e string) bool { return strings.Contains(e, text) })
}

// Do does actions one after the other; one that fails ends the test.
func (p *Tab) Do(actions ...chromedp.Action) {
	p.T.Helper()
	if err := chromedp.Run(p.ctx, actions...); err != nil {
		p.T.Fatal(err)
	}
}

// Eval returns the value of an expression, which may be a promise.
func Eval[T any](p *Tab, expression string) (out T) {
	p.T.Helper()
	p.Do(chromedp.Evaluate(expression, &out, func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
	return out
}

// Until waits for an expression to become true, also over a change of the page.
func (p *Tab) Until(expression string) {
	p.T.Helper()
	for {
		var ok bool
		err := chromedp.Run(p.ctx, chromedp.Evaluate("!!("+expression+")", &ok)) // fails while a page is not there yet
		if ok {
			return
		}
		if p.ctx.Err() != nil {
			p.T.Fatalf("%s never became true (%v)", expression, err)
		}
		_ = chromedp.Run(p.ctx, chromedp.Sleep(50*time.Millisecond)) // its end is seen above
	}
}

// Painted waits until what was changed has been drawn.
func (p *Tab) Painted() {
	p.T.Helper()
	Eval[bool](p, `new Promise(function (done) { requestAnimationFrame(function () { requestAnimationFrame(function () { done(true); }); }); })`)
}
