// Package serve shows a directory of runs in a browser: a list with search, filters
// and sorting, a page per run, a comparison of several, and live runs. It also answers
// a Prometheus scrape.
//
// It needs nothing of the processes that run: all is read from files. A run writes
// progress.jsonl (package progress), whose events are numbered and are passed on as
// server-sent events under the same numbers; so a browser that was cut off asks for
// what it missed (Last-Event-ID) and a run of another terminal, or of last week, is
// shown the same way. What a file lacks is said on the page.
//
// The work is split: Index knows the directory (and reads a file again only when it
// has changed), query.go chooses and sorts, the
// files compare*.go set runs side by side, views.go makes what the other templates show,
// server.go routes and guards.
//
// The server only reads: GET and HEAD. It answers requests that name this machine
// (Host), so no web page can reach it by a name of its own that resolves to here, and
// opens only known names below the directory of runs, never through a link out of it.
// A run's own pages may come from elsewhere, so they are shown in a sandbox: they can
// run their script and reach nothing.
package serve
