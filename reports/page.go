package reports

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"strings"

	"fencepost/reports/chart"
)

//go:embed templates/*.html templates/*.css templates/*.js templates/uplot
var assets embed.FS

var templates = template.Must(template.ParseFS(assets, "templates/*.html"))

var timelineScripts = []string{"timeline-data.js", "timeline-draw.js", "timeline-charts.js", "timeline-words.js", "timeline.js"}

// source is the text of templates, which are part of the program.
func source(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		f, err := assets.ReadFile("templates/" + name)
		if err != nil {
			panic(err)
		}
		b.Write(f)
		b.WriteByte('\n')
	}
	return b.String()
}

// Style is the style sheet of every page, with its colours for light and dark.
func Style() string { return chart.CSS() + chart.PlotCSS() + source("page.css") }

// Curves are style and script of the figures of the template "curves".
func Curves() (style, script string) {
	return source("uplot/uPlot.min.css", "curves.css"), "/*!\n" + source("uplot/LICENSE") + "*/\n" + source("uplot/uPlot.iife.min.js", "curves.js")
}

// Parts is the source of the templates that pages share: icons, icon, badge, facts,
// command and curves.
func Parts() string { return source("parts.html") }

// head are the style and the script that a page carries; all of them are our own files
// and a vendored one.
type head struct{ CSS, JS template.HTML }

// newHead is of a page with curves, or without.
func newHead(curves bool, style string, scripts ...string) head {
	css, js := Style(), source("page.js")
	if curves {
		s, d := Curves()
		css, js = css+s, js+d
	}
	return head{template.HTML("<style>" + css + style + "</style>"), template.HTML("<script>" + js + source(scripts...) + "</script>")} //nolint:gosec
}

// page makes the view of a run.
func (r *run) page() page {
	p := page{
		Run: r.info.Run, Verdict: verdictWords(r.word()), Answer: r.answerView(), Problems: r.problems, Ended: r.info.Interrupted,
		Facts: r.facts(), Tiles: r.tiles(), Notes: r.notes(), Why: r.why(), Todo: r.todo(), Command: r.info.Command,
		Properties: r.properties(), Cause: r.cause(), Violations: r.violations(), Strip: r.strip().Inline(),
		Slowest: r.slowest(), Faults: r.faults(), Recovery: r.recovery(),
		Versions: facts(r.info.Versions), Machine: facts(r.info.Machine),
	}
	p.Title = fmt.Sprintf("%s – %s", p.Verdict.Word, r.info.Run)
	p.Takeovers, p.MoreTakes = r.takeovers()
	p.Thresholds = r.thresholds()
	p.Table, p.Headers = r.latencyTable()
	p.Files, p.Logs = r.files()
	p.head = newHead(false, "")
	if data, ok := r.timeline(); ok {
		p.Interactive, p.Latencies = &data, chart.Latencies(r.analysis)
		p.head = newHead(true, source("timeline.css"), timelineScripts...)
	}
	p.Jumps = r.jumps()
	if len(r.analysis.Ops) == 0 {
		p.Short = "The history holds no operations, so there is nothing to draw or to measure."
	}
	return p
}

func render(name string, data any) ([]byte, error) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		return nil, fmt.Errorf("page %s: %w", name, err)
	}
	return b.Bytes(), nil
}

// strip is the run's phases and faults: what is there of the time line without scripts
// and on paper.
func (r *run) strip() chart.SVG {
	if r.history == nil || r.analysis.End <= r.analysis.Start {
		return chart.SVG{}
	}
	return chart.Strip(r.analysis)
}

func round(v float64) float64 { return float64(int64(v*1000+0.5)) / 1000 }

func inline(svgs []chart.SVG) (out []template.HTML) {
	for _, s := range svgs {
		if !s.Empty() {
			out = append(out, s.Inline())
		}
	}
	return out
}
