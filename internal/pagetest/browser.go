//go:build browser

package pagetest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

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
