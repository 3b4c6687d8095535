package reports

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"strings"

	"fencepost/reports/chart"
)

//go:embed templates/*.html templates/*.css templates/*.js templates/uplot
var assets embed.FS

var templates = template.Must(template.ParseFS(assets, "templates/*.html"))

// css is the style of every page.
func css() (template.HTML, error) {
	b, err := assets.ReadFile("templates/page.css")
	return template.HTML("<style>" + chart.CSS() + chart.PlotCSS() + string(b) + "</style>"), err //nolint:gosec // our own files
}

func js() (template.HTML, error) {
	b, err := assets.ReadFile("templates/page.js")
	return template.HTML("<script>" + string(b) + "</script>"), err //nolint:gosec // our own file
}

// timelineAssets are what the interactive time line needs: styles for the page's
// head, scripts for its end.
func timelineAssets() (styles, scripts template.HTML, err error) {
	read := func(names ...string) string {
		var b strings.Builder
		for _, name := range names {
			f, readErr := assets.ReadFile("templates/" + name)
			err = errors.Join(err, readErr)
			b.Write(f)
			b.WriteByte('\n')
		}
		return b.String()
	}
	css := read("uplot/uPlot.min.css", "timeline.css")
	js := "/*!\n" + read("uplot/LICENSE") + "*/\n" +
		read("uplot/uPlot.iife.min.js", "timeline-data.js", "timeline-draw.js", "timeline-charts.js", "timeline-words.js",
			"timeline-violations.js", "timeline.js")
	return template.HTML("<style>" + css + "</style>"), template.HTML("<script>" + js + "</script>"), err //nolint:gosec // our own files and a vendored one
}

// runPage makes the view of a run.
func (r *run) page(d drawn) (page, error) {
	style, err := css()
	if err != nil {
		return page{}, err
	}
	script, err := js()
	if err != nil {
		return page{}, err
	}
	p := page{
		CSS: style, JS: script, Run: r.info.Run, Verdict: verdictWords(r.word()), Answer: r.answerView(), Problems: r.problems, Ended: r.info.Interrupted,
		Facts: r.facts(), Tiles: r.tiles(), Notes: r.notes(), Why: r.why(), Todo: r.todo(), Command: r.info.Command,
		Properties: r.properties(), Cause: r.cause(), Violations: r.violations(), Strip: svgHTML(d.strip), Rates: inline(d.rates),
		Latencies: inline(d.latencies), Holders: svgHTML(d.holders), Slowest: r.slowest(), Faults: r.faults(), Recovery: r.recovery(),
		Versions: facts(r.info.Versions), Machine: facts(r.info.Machine), Data: r.pointer(),
	}
	p.Title = fmt.Sprintf("%s – %s", p.Verdict.Word, r.info.Run)
	for _, z := range d.zooms {
		p.Zooms = append(p.Zooms, zoomView{z.Title, z.Inline()})
	}
	p.Takeovers, p.MoreTakes = r.takeovers()
	p.Thresholds = r.thresholds()
	p.Table, p.Headers = r.latencyTable()
	p.Files, p.Logs = r.files()
	if data, ok := r.timeline(); ok {
		styles, scripts, err := timelineAssets()
		if err != nil {
			return page{}, err
		}
		p.CSS, p.JS, p.Interactive = p.CSS+styles, p.JS+scripts, &data
	}
	p.Jumps = r.jumps()
	if len(r.analysis.Ops) == 0 {
		p.Short = "The history holds no operations, so there is nothing to draw or to measure."
	}
	return p, nil
}

func render(name string, data any) ([]byte, error) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		return nil, fmt.Errorf("page %s: %w", name, err)
	}
	return b.Bytes(), nil
}
