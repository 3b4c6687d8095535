package serve

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"fencepost/checker"
	"fencepost/harness/record/rundir"
	"fencepost/reports"
	"fencepost/reports/measure"
)

// contentTypes are the kinds of files that a run has; nothing else is served. Text is
// shown, not guessed at.
var contentTypes = map[string]string{
	".html":  "text/html; charset=utf-8",
	".svg":   "image/svg+xml",
	".json":  "application/json",
	".jsonl": "text/plain; charset=utf-8",
	".csv":   "text/csv; charset=utf-8",
	".yaml":  "text/plain; charset=utf-8",
	".log":   "text/plain; charset=utf-8",
	".txt":   "text/plain; charset=utf-8",
	".out":   "text/plain; charset=utf-8",
	".err":   "text/plain; charset=utf-8",
}

// subdirs are the directories of a run's directory.
var subdirs = []string{rundir.HistoryDir, rundir.LogDir, "plots"}

// known says whether a run may have a file of that name, with forward slashes, and
// what it is.
func known(name string) (contentType string, ok bool) {
	if !fs.ValidPath(name) || strings.ContainsAny(name, "\\\x00") {
		return "", false
	}
	dir, base := path.Split(name)
	if strings.HasPrefix(base, ".") {
		return "", false
	}
	if dir != "" && !slices.Contains(subdirs, strings.TrimSuffix(dir, "/")) {
		return "", false
	}
	t, ok := contentTypes[path.Ext(base)]
	if !ok && dir == rundir.LogDir+"/" { // whatever a process wrote
		return "text/plain; charset=utf-8", true
	}
	return t, ok
}

// sandboxed is the policy for pages that a run's directory holds. They may be of
// anybody, so they have an origin of their own: their inline script and style work,
// and they can load nothing and read nothing.
const sandboxed = "sandbox allow-scripts allow-downloads allow-popups; default-src 'none'; script-src 'unsafe-inline'; style-src " +
	"'unsafe-inline'; img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// file answers with a file of a run.
func (s *Server) file(w http.ResponseWriter, r *http.Request, e *Entry, name string) {
	if dir := strings.TrimSuffix(name, "/"); slices.Contains(subdirs, dir) {
		http.Redirect(w, r, runPath(e.Name)+"#files", http.StatusFound) // the page lists them
		return
	}
	ct, ok := known(name)
	if !ok {
		s.fail(w, http.StatusNotFound, "There is no such file", "A run has no file of the name "+printable(name)+".")
		return
	}
	f, err := s.open(e, name)
	if err != nil {
		s.noFile(w, e, name, err)
		return
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		s.noFile(w, e, name, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", ct)
	if ext := path.Ext(name); ext == ".html" || ext == ".svg" {
		h.Set("Content-Security-Policy", sandboxed)
	}
	http.ServeContent(w, r, "", st.ModTime(), f)
}

// errNotRegular is a link, a directory or worse where a file should be.
var errNotRegular = errors.New("it is not a regular file")

// open opens a file of a run, if it is one: links are not followed, neither out of
// the directory nor within it.
func (s *Server) open(e *Entry, name string) (*os.File, error) {
	root, err := os.OpenRoot(s.runs)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	at := ""
	for _, part := range strings.Split(path.Join(e.Name, name), "/") {
		at = path.Join(at, part)
		st, err := root.Lstat(at)
		if err != nil {
			return nil, err
		}
		if st.Mode()&fs.ModeType != 0 && !st.IsDir() {
			return nil, errNotRegular
		}
	}
	// Between the look and the opening the root still bounds where it can lead.
	f, err := root.Open(at)
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		f.Close()
		return nil, errNotRegular
	}
	return f, nil
}

func (s *Server) noFile(w http.ResponseWriter, e *Entry, name string, err error) {
	if !missing(err) && !errors.Is(err, errNotRegular) {
		s.fail(w, http.StatusInternalServerError, "The file cannot be read", e.Name+"/"+name+": "+e.local(err))
		return
	}
	why := "The run " + e.Name + " has no " + printable(name) + "."
	switch {
	case errors.Is(err, errNotRegular):
		why = name + " of run " + e.Name + " is not a regular file; links are not followed."
	case name == rundir.ReportFile && e.State == Running:
		why = "The run is live; its report is written at its end."
	case name == rundir.ReportFile:
		why += " Make it with: fencepost report RUN_DIR"
	}
	s.fail(w, http.StatusNotFound, "There is no such file", why)
}

// read reads a whole file of a run, of at most limit bytes.
func (s *Server) read(e *Entry, name string, limit int64) ([]byte, error) {
	f, err := s.open(e, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = errors.New(name + " is too large to be shown here")
	}
	return b, err
}

// fileInfo is a file that a run's page lists.
type fileInfo struct {
	Path string // relative to the run's page
	Link string // the same, escaped
	Size int64
}

// files lists the run's files that can be asked for, by name.
func (s *Server) files(e *Entry) []fileInfo {
	root, err := os.OpenRoot(s.runs)
	if err != nil {
		return nil
	}
	defer root.Close()
	fsys, err := fs.Sub(root.FS(), e.Name)
	if err != nil {
		return nil
	}
	var out []fileInfo
	for _, dir := range append([]string{"."}, subdirs...) {
		if st, err := fs.Lstat(fsys, dir); err != nil || !st.IsDir() {
			continue
		}
		found, err := fs.ReadDir(fsys, dir)
		if err != nil {
			continue
		}
		for _, d := range found {
			name := path.Join(dir, d.Name())
			if _, ok := known(name); !ok || !d.Type().IsRegular() {
				continue
			}
			if st, err := d.Info(); err == nil {
				out = append(out, fileInfo{name, escapePath(name), st.Size()})
			}
		}
	}
	return out
}

// runPath is the address of a run's page.
func runPath(name string) string { return "/runs/" + escapePath(name) + "/" }

func escapePath(p string) string {
	parts := strings.Split(p, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

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
