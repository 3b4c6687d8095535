// Package reports turns a run's files into something a person can read: one
// self-contained HTML page a run, with plots, CSV and JSON beside it; a page a
// benchmark; and RESULTS.md over the runs that are kept.
//
// Reports are made from files alone (run.json, history/*.jsonl, verdict.json),
// so an old run can be reported again by a newer tool. What a file lacks is said
// on the page, at its top; nothing is filled in by guesses.
//
// The work is split by what may change for its own reasons: package measure
// turns a history into numbers and knows no HTML; package chart turns numbers
// into charts and knows no history files; this package reads, lays out and writes.
// The template of a run's page asks the run itself for each part (view.go, sections.go,
// words in page.go), and formats what the checker and the history say with functions.
//
// Each chart is drawn once. Curves are drawn by the page's script (curves.js, by uPlot,
// vendored in templates/uplot). So is a run's time line: this package puts the history
// into the page as columns of varints (timeline.go), timeline-data.js decodes, filters
// and packs them, timeline-draw.js draws lanes on a canvas, timeline-charts.js has the
// rates and latencies of what is in sight, timeline-words.js says in words what is pointed at and
// leads through violations, timeline.js is what a reader does. Drawings
// that are there without scripts and on paper are SVG: a run's phases and faults, the
// windows of violations, and a benchmark's arms. Package browser tests all that in Chromium.
//
// Pages load nothing from anywhere, say with scripts off what is not there, and are the
// same bytes for the same input.
package reports
