package livepage

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"fencepost/core/forward"
)

// heartbeat is how often a stream that has nothing to say says so.
const heartbeat = 15 * time.Second

//go:embed page.html page.css page.js
var assets embed.FS

// Options configure a Page. Recorder and Reader are needed.
type Options struct {
	Recorder *Recorder
	Reader   Reader
	// Secret is shown to other processes (core/forward); "": none.
	Secret string
	// Token is what those who look have to know; "": everybody may.
	Token string
	// Stop, when it is done, ends the streams: a server that shuts down waits for them.
	// nil: never.
	Stop context.Context
	// Now is the wall clock; default time.Now.
	Now func() time.Time
}

// Page is the handler of the page.
type Page struct {
	o   Options
	mux *http.ServeMux

	mu       sync.Mutex
	watchers map[chan []byte]bool
	last     []byte // of the collector that is at work; nil: none has said anything yet
	stop     context.CancelFunc
	ended    chan struct{} // closed when the last collector has
}

// New makes a page.
func New(o Options) *Page {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Stop == nil {
		o.Stop = context.Background()
	}
	p := &Page{o: o, mux: http.NewServeMux(), watchers: map[chan []byte]bool{}}
	for pattern, file := range map[string]string{"GET /{$}": "page.html", "GET /live/page.css": "page.css", "GET /live/page.js": "page.js"} {
		p.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, assets, file) })
	}
	p.mux.HandleFunc("GET /live/events", p.events)
	return p
}

// Before serves the page at / and below /live/, and hands everything else to h.
func (p *Page) Before(h http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", p)
	mux.Handle("GET /live/", p)
	mux.Handle("/", h)
	return mux
}

// ServeHTTP guards and routes.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	if !p.admit(r) {
		h.Set("WWW-Authenticate", `Basic realm="scheduler: the password is the API's token"`)
		http.Error(w, "The password is the API's token (WORKER_API_TOKEN); the name may be anything.", http.StatusUnauthorized)
		return
	}
	p.mux.ServeHTTP(w, r)
}

func (p *Page) admit(r *http.Request) bool {
	if p.o.Token == "" || forward.Shows(r, p.o.Token) {
		return true
	}
	_, password, _ := r.BasicAuth()
	want, got := sha256.Sum256([]byte(p.o.Token)), sha256.Sum256([]byte(password))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// sendTimeout bounds the sending of one event.
const sendTimeout = 5 * time.Second

// events streams views as server-sent events, each the whole of it.
func (p *Page) events(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	// The server's limits are for answers that end.
	if err := rc.SetWriteDeadline(time.Time{}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	send := func(text string) bool {
		// A reader that reads no more must not keep a stop waiting, or the readings going on.
		if rc.SetWriteDeadline(time.Now().Add(sendTimeout)) != nil {
			return false
		}
		_, err := w.Write([]byte(text))
		return err == nil && rc.Flush() == nil
	}
	views, leave := p.watch()
	defer leave()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for ok := send("retry: 2000\n\n"); ok; {
		select {
		case v := <-views:
			ok = send(fmt.Sprintf("event: view\ndata: %s\n\n", v))
		case <-beat.C:
			ok = send(": still here\n\n")
		case <-r.Context().Done():
			return
		case <-p.o.Stop.Done():
			return
		}
	}
}

// watch gives the views from now on. The first watcher starts the collector, the last
// one to leave ends it.
func (p *Page) watch() (views <-chan []byte, leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := make(chan []byte, 1)
	if p.last != nil {
		c <- p.last
	}
	p.watchers[c] = true
	if len(p.watchers) == 1 {
		ctx, cancel := context.WithCancel(p.o.Stop)
		before, ended := p.ended, make(chan struct{})
		p.stop, p.ended = cancel, ended
		go func() {
			defer close(ended)
			if before != nil {
				<-before
			}
			p.collect(ctx)
		}()
	}
	return c, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if delete(p.watchers, c); len(p.watchers) == 0 {
			p.stop()
			p.last = nil
		}
	}
}

// collect looks again and again, and tells the watchers.
func (p *Page) collect(ctx context.Context) {
	transport := &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: 10 * time.Second}
	defer transport.CloseIdleConnections()
	c := &collector{self: p.o.Recorder, reader: p.o.Reader, secret: p.o.Secret, now: p.o.Now, client: &http.Client{Transport: transport}}
	defer c.reading.end()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		text, err := json.Marshal(c.view(ctx))
		if ctx.Err() != nil || err != nil { // nothing in a view cannot be written
			return
		}
		p.tell(ctx, text)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// tell gives a view to every watcher, in place of one that it has not taken yet.
func (p *Page) tell(ctx context.Context, text []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	p.last = text
	for c := range p.watchers {
		select {
		case <-c:
		default:
		}
		c <- text
	}
}
