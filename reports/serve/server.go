package serve

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options say what is served.
type Options struct {
	// Runs is the directory of runs and benchmarks. It need not exist yet.
	Runs string
	// Listen is the address that is listened at, as host:port; requests must name it
	// or this machine. "" is loopback.
	Listen string
	// Version is the tool's, for /metrics.
	Version string
	// Stop, when it is done, ends the streams of events. nil: never.
	Stop context.Context
}

// Server answers requests. Make one with New.
type Server struct {
	runs    string
	index   *Index
	hosts   hosts
	pages   *pages
	metrics *metrics
	stop    context.Context
	mux     *http.ServeMux
}

// New returns the handler of everything: pages, runs' files, events and metrics.
func New(o Options) (*Server, error) {
	p, err := newPages()
	if err != nil {
		return nil, err
	}
	s := &Server{runs: o.Runs, index: NewIndex(o.Runs), pages: p, stop: o.Stop, mux: http.NewServeMux()}
	if s.stop == nil {
		s.stop = context.Background()
	}
	if s.hosts, err = hostsOf(o.Listen); err != nil {
		return nil, err
	}
	s.metrics = newMetrics(s.index, o.Version)
	for pattern, h := range map[string]http.HandlerFunc{
		"/{$}":              s.list(false),
		"/benchmarks":       s.list(true),
		"/compare":          s.compare,
		"/runs/{path...}":   s.run,
		"/events":           s.listEvents,
		"/events/{name...}": s.runEvents,
		"/assets/{name}":    s.asset,
		"/":                 s.unknown,
	} {
		s.mux.Handle(pattern, s.metrics.count(pattern, h))
	}
	s.mux.Handle("/metrics", s.metrics.count("/metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}).ServeHTTP))
	return s, nil
}

// ServeHTTP guards and routes.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	switch {
	case !s.hosts.allow(r.Host):
		s.metrics.refused.Inc()
		http.Error(w, "fencepost serve answers only requests to the address that it listens at, not to "+printable(r.Host)+".\nOpen it by that "+
			"address, or name another with --listen.", http.StatusForbidden)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		s.metrics.refused.Inc()
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "fencepost serve only shows: GET and HEAD", http.StatusMethodNotAllowed)
	default:
		s.mux.ServeHTTP(w, r)
	}
}

// secure sets what holds for every answer. Our own pages take style, script and data
// from here and nothing from elsewhere; charts are drawn with style attributes.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; style-src-attr 'unsafe-inline'; script-src 'self'; connect-src "+
		"'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
}

// run answers for a run's page and its files.
func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	full := r.PathValue("path")
	if full == "" {
		http.Redirect(w, r, "/", http.StatusFound)
		return
	}
	e, file, ok := s.find(full)
	switch {
	case !ok && strings.Trim(full, "/") == "latest":
		s.latest(w, r)
	case !ok:
		s.fail(w, http.StatusNotFound, "There is no such run", "The directory of runs has no "+printable(full)+". It may have been removed "+
			"since the list was made.")
	case file == "" && !strings.HasSuffix(full, "/"):
		http.Redirect(w, r, runPath(e.Name), http.StatusFound) // links of the page are relative to it
	case file == "":
		s.runPage(w, r, e)
	default:
		s.file(w, r, e, file)
	}
}

// find splits the path of a run or of one of its files.
func (s *Server) find(full string) (e *Entry, file string, ok bool) {
	parts := strings.Split(full, "/")
	for n := 1; n <= min(len(parts), 2); n++ {
		if e, ok := s.index.Find(path.Join(parts[:n]...)); ok {
			return e, strings.Join(parts[n:], "/"), true
		}
	}
	return nil, "", false
}

// latest leads to the newest run.
func (s *Server) latest(w http.ResponseWriter, r *http.Request) {
	list, _, _ := s.index.List()
	for _, e := range list {
		if !e.Bench() {
			http.Redirect(w, r, runPath(e.Name), http.StatusFound)
			return
		}
	}
	s.fail(w, http.StatusNotFound, "There is no run yet", "The directory of runs is empty.")
}

func (s *Server) unknown(w http.ResponseWriter, r *http.Request) {
	s.fail(w, http.StatusNotFound, "There is no such page", printable(r.URL.Path)+" is neither a page nor a file of a run.")
}

// printable is what came from outside, bounded and fit for a line of text.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if r := []rune(s); len(r) > 120 {
		s = string(r[:120]) + "…"
	}
	return `"` + s + `"`
}

// hosts says which Host a request may name. A web page can have a name of its own
// resolve to this machine (DNS rebinding) and would then be of the same origin; it
// cannot make its name an address or "localhost".
type hosts struct {
	names map[string]bool // in lower case
	// any address, not loopback's alone
	any bool
}

// hostsOf returns what is allowed where listen is listened at, as host:port.
func hostsOf(listen string) (hosts, error) {
	h := hosts{names: map[string]bool{"localhost": true}}
	if listen == "" || Loopback(listen) {
		return h, nil
	}
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return h, fmt.Errorf("listen address: %w", err)
	}
	h.any = true
	if host != "" {
		h.names[strings.ToLower(host)] = true
	}
	if name, err := os.Hostname(); err == nil {
		h.names[strings.ToLower(name)] = true
	}
	return h, nil
}

// Loopback says that only this machine can reach a listen address.
func Loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

func (h hosts) allow(host string) bool {
	name := host
	if n, _, err := net.SplitHostPort(host); err == nil {
		name = n
	}
	name = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"))
	if h.names[name] {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && (h.any || ip.IsLoopback())
}
