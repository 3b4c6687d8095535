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
// into SVG and knows no history files; this package reads, lays out and writes.
//
// A run's page has an interactive time line: this package puts the history into it
// as columns of varints (timeline.go), and scripts draw them: timeline-data.js decodes,
// filters and packs, timeline-draw.js draws lanes on a canvas, timeline-charts.js has
// the curves by uPlot (vendored in templates/uplot), timeline.js is what a reader does.
// With scripts off and on paper the drawings of package chart are there instead.
// Package browser tests all that in Chromium.
//
// Pages load nothing from anywhere, can be read with scripts off, and are the
// same bytes for the same input.
package reports
