package serve

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"time"

	"fencepost/checker"
	"fencepost/reports"
	"fencepost/reports/measure"
)

//go:embed templates/*
var embedded embed.FS

// pages are the templates and what they refer to.
type pages struct {
	templates *template.Template
	assets    map[string]asset // by name
}

type asset struct {
	body []byte
	tag  string // of its content
}

func newPages() (*pages, error) {
	var err error
	p := &pages{assets: map[string]asset{}}
	p.templates = template.New("").Funcs(template.FuncMap{
		"asset": p.path, "run": runPath, "badge": badgeOf, "status": reports.BadgeOf[checker.Status], "proven": reports.Proven,
		"bytes": measure.FormatSize, "took": took, "duration": measure.FormatDuration, "count": countAny, "clock": clock, "at": when,
		"title": measure.OpTitle, "phase": phaseLabel,
	})
	if p.templates, err = p.templates.Parse(reports.Parts()); err != nil {
		return nil, err
	}
	if p.templates, err = p.templates.ParseFS(embedded, "templates/*.html"); err != nil {
		return nil, err
	}
	style, script := reports.Curves()
	p.add("curves.js", []byte(script))
	for name, before := range map[string]string{"serve.css": reports.Style() + style, "list.js": "", "live.js": ""} {
		b, err := embedded.ReadFile("templates/" + name)
		if err != nil {
			return nil, err
		}
		p.add(name, append([]byte(before), b...))
	}
	return p, nil
}

func (p *pages) add(name string, body []byte) {
	sum := sha256.Sum256(body)
	p.assets[name] = asset{body, hex.EncodeToString(sum[:8])}
}

// path is the address of an asset, which changes with its content.
func (p *pages) path(name string) string { return "/assets/" + name + "?v=" + p.assets[name].tag }

func (s *Server) asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	a, ok := s.pages.assets[name]
	if !ok {
		s.unknown(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}[path.Ext(name)])
	h.Set("ETag", `"`+a.tag+`"`)
	if r.URL.Query().Get("v") == a.tag {
		h.Set("Cache-Control", "max-age=31536000, immutable")
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.body))
}

// frame is what every page has.
type frame struct {
	Title   string
	Tab     string // runs, benchmarks, compare
	Scripts []string
}

// show renders a page. A page is whole or not there.
func (s *Server) show(w http.ResponseWriter, code int, name string, data any) {
	var b bytes.Buffer
	if err := s.pages.templates.ExecuteTemplate(&b, name, data); err != nil {
		http.Error(w, fmt.Sprintf("page %s: %v", name, err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes()) // a browser that has gone away is nobody's error
}

// fail shows what went wrong.
func (s *Server) fail(w http.ResponseWriter, code int, title, text string) {
	s.show(w, code, "error.html", struct {
		frame
		Text string
	}{frame{Title: title}, text})
}

// badgeOf is that of a state.
func badgeOf(s State) reports.Badge {
	b := reports.BadgeOf(s)
	switch s {
	case Running:
		b.Class, b.Icon = "running", "play"
	case BrokenOff, Unreadable:
		b.Class, b.Icon = "unknown", "warn"
	case Measured:
		b.Class = "bench"
	}
	return b
}

const none = "–"

func took(d time.Duration) string {
	if d <= 0 {
		return none
	}
	if d > time.Second {
		d = d.Round(time.Second)
	}
	return measure.FormatDuration(d)
}

// countAny is FormatCount for a template, which has numbers of several types.
func countAny(n any) (string, error) {
	switch n := n.(type) {
	case int:
		return measure.FormatCount(n), nil
	case int64:
		return measure.FormatCount(n), nil
	}
	return "", fmt.Errorf("a %T is no count", n)
}

// when is an instant, to the second, in UTC.
func when(t time.Time) string {
	if t.IsZero() {
		return none
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// clock is a time of a run in seconds.
func clock(t float64) string { return fmt.Sprintf("%.1f s", t) }
