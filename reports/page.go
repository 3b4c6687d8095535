package reports

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"path/filepath"
	"strings"
	"time"

	"fencepost/reports/chart"
	"fencepost/reports/measure"
)

//go:embed templates/*.html templates/*.css templates/*.js templates/uplot
var assets embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"badge":  func(word any) Badge { return BadgeOf(fmt.Sprint(word)) },
	"proven": Proven, "sentence": sentenceCase, "facts": facts, "count": measure.FormatCount[int], "join": strings.Join,
	"duration": measure.FormatDuration, "between": func(from, to int64) string { return measure.FormatDuration(time.Duration(to - from)) },
	"millis": milliseconds, "checked": func(ms float64) string {
		return measure.FormatDuration(time.Duration(ms * float64(time.Millisecond)).Round(10 * time.Microsecond))
	},
	"op": measure.OpTitle, "about": measure.OpAbout, "operation": chart.OperationText,
	"file": relative, "base": filepath.Base, "link": safeLink, "violation": violationID,
	"color": func(fault string) template.CSS { return template.CSS(chart.FaultColor(fault).Var()) }, // a constant of the palette
	"role":  func(of string) string { return roleNames[of] },
	"red":   redID, "orphan": orphanText, "hours": hours,
}).ParseFS(assets, "templates/*.html"))

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

// page is what the template of a run's report shows: it asks the run for each part. All text is
// plain; the template escapes it.
type page struct {
	head
	*run
	// Interactive is the time line that scripts draw; nil: there is nothing to draw.
	Interactive *timelineData
	Latencies   []chart.Curves
}

// page makes the view of a run.
func (r *run) page() page {
	p := page{run: r, head: newHead(false, "")}
	if data, ok := r.timeline(); ok {
		p.Interactive, p.Latencies = &data, chart.Latencies(r.Analysis)
		p.head = newHead(true, source("timeline.css"), timelineScripts...)
	}
	return p
}

// Title is the page's.
func (r *run) Title() string { return fmt.Sprintf("%s – %s", r.Word(), r.Info.Run) }

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
	if r.history == nil || r.Analysis.End <= r.Analysis.Start {
		return chart.SVG{}
	}
	return chart.Strip(r.Analysis)
}

// Strip is the same as an element of the page.
func (r *run) Strip() template.HTML { return r.strip().Inline() }

func round(v float64) float64 { return float64(int64(v*1000+0.5)) / 1000 }

func inline(svgs []chart.SVG) (out []template.HTML) {
	for _, s := range svgs {
		if !s.Empty() {
			out = append(out, s.Inline())
		}
	}
	return out
}
