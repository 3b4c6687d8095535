//go:build browser

package pagetest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// serve serves a page with the body.
func serve(t *testing.T, body string) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<!DOCTYPE html><html lang="en"><title>x</title><link rel="icon" href="data:,"><main><h1>x</h1>`+body+`</main>`)
	}))
	t.Cleanup(srv.Close)
	return srv
}

// What goes wrong on a page is heard, each in its way, and only what is meant is forgiven.
func TestWrong(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	for name, c := range map[string]struct{ script, want string }{
		"exception": {`throw new Error('broken')`, "exception: "},
		"promise":   {`Promise.reject(new Error('broken'))`, "exception: "},
		"error":     {`console.error('broken', 1)`, `console.error: "broken" 1`},
		"warning":   {`console.warn('broken')`, `console.warning: "broken"`},
		"log":       {`fetch('data:broken')`, "log: "},
		"request":   {`fetch('` + other.URL + `/x', {mode: 'no-cors'})`, "the page asks for " + other.URL + "/x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := serve(t, `<script>console.log('fine'); `+c.script+`</script>`)
			p := newTab(t, []string{srv.URL + "/"})
			p.visit(srv.URL, Wide)
			heard := func() bool { return strings.Contains(strings.Join(p.wrong(), "\n"), c.want) }
			for !heard() {
				p.Painted() // ends the test if it never comes
			}
			p.Forgive("something else")
			if !heard() {
				t.Error("it is forgiven with something else")
			}
			p.Forgive(c.want)
			if heard() {
				t.Error("it is not forgiven")
			}
		})
	}
}

func TestUntilOverReload(t *testing.T) {
	t.Parallel()
	srv := serve(t, `<script>if (!location.search) { location.search = '?again'; }</script>`)
	p := Open(t, srv.URL, Wide, srv.URL+"/")
	p.Until(`location.search === '?again'`)
	p.Painted()
	if got := p.wrong(); len(got) > 0 {
		t.Errorf("heard is %q", got)
	}
}

func TestAxe(t *testing.T) {
	t.Parallel()
	srv := serve(t, `<p>fine</p>`)
	if found := Open(t, srv.URL, Wide, srv.URL+"/").Axe(); len(found) > 0 {
		t.Errorf("found is %q", found)
	}
	srv = serve(t, `<button></button><p style="color:#ddd;background:#fff">pale</p>`)
	found := strings.Join(Open(t, srv.URL, Wide, srv.URL+"/").Axe(), "\n")
	for _, want := range []string{"critical: ", "(button-name)", "serious: ", "(color-contrast)"} {
		if !strings.Contains(found, want) {
			t.Errorf("found is %q, want %q", found, want)
		}
	}
}
