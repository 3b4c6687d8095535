//go:build browser

package browser

import (
	"net/url"
	"os"
	"testing"

	"fencepost/internal/pagetest"
)

func TestMain(m *testing.M) { os.Exit(pagetest.Main(m)) }

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
