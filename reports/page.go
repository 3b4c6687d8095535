package reports

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"fencepost/checker"
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
	return source("uplot/uPlot.min.css", "curves.css"), "/*!\n" + source("uplot/LICENSE") + "*/\n" + source("uplot/uPlot.iife.min.js",
		"curves.js")
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
	//nolint:gosec
	return head{template.HTML("<style>" + css + style + "</style>"), template.HTML("<script>" + js + source(scripts...) + "</script>")}
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

// notChecked replaces the verdict of a run without verdict.json.
const notChecked checker.Verdict = "NOT CHECKED"

// Badge is a verdict, or another such word, with its colour and icon.
type Badge struct {
	Word  string
	Class string // of CSS: pass, fail, invalid, unknown, none
	Icon  string // the name of an icon of the page
}

// BadgeOf is that of a verdict or of a property's status.
func BadgeOf[S ~string](s S) Badge {
	class := strings.ToLower(string(s))
	if icon := map[string]string{"pass": "check", "fail": "cross", "invalid": "warn", "unknown": "question"}[class]; icon != "" {
		return Badge{string(s), class, icon}
	}
	return Badge{string(s), "none", "dash"}
}

// Proven is the badge of a fault that took hold, or did not for all that is known.
func Proven(proven bool) Badge {
	if proven {
		return Badge{"proven", "pass", "check"}
	}
	return Badge{"not proven", "invalid", "warn"}
}

// Todo is what a person does next, beside what the answer says.
func (r *run) Todo() []string {
	switch r.Word() {
	case checker.Pass:
		out := []string{"One run is one sample: repeat it with other seeds, and at other contention, before relying on it."}
		if len(r.Analysis.Faults) > 0 {
			out = append(out, "Compare latency before and during the fault below: safe is not the same as usable.")
		}
		return out
	case checker.Fail:
		return []string{
			"Read the likely cause, then the first violation: its drawing is the shortest stretch of the history in which the rule is broken.",
			"Keep this directory. It holds all that is needed to check and report the run again.",
			"Repeat the run with the same seed after a change; timing differs between runs, so repeat it several times before believing a PASS.",
		}
	case checker.Invalid:
		return nil // the answer says it
	case checker.Unknown:
		return []string{"If it stays UNKNOWN, repeat it shorter or at lower contention: the search grows with what is undecided in one lock's " +
			"history."}
	}
	return []string{"Check it: fencepost check " + r.dirName(), "Then make this report again: fencepost report " + r.dirName()}
}

// Answer is the verdict in words, and of a run that was not checked what that means.
func (r *run) Answer() checker.Answer {
	if r.Verdict == nil {
		return checker.Answer{What: "the history has not been checked yet: the numbers below judge nothing"}
	}
	a := checker.AnswerOf(r.Verdict, r.explanation)
	if len(a.NotExercised) > 0 {
		host := "clocks and networks of several machines: all processes ran on one host"
		if r.Info.Cluster == "external" {
			host = "clocks and networks of several machines between workers: all of them ran on one host"
		}
		a.NotExercised = append(slices.Clone(a.NotExercised), host)
	}
	return a
}

// Why are all reasons of an INVALID verdict, where the answer names one of several.
func (r *run) Why() []string {
	if r.Word() != checker.Invalid {
		return nil
	}
	if all := r.invalidReasons(); len(all) > 1 {
		return all
	}
	return nil
}

func (r *run) dirName() string {
	if r.Info.Run != "" {
		return "runs/" + r.Info.Run
	}
	return "RUN_DIR"
}

// Word is the verdict.
func (r *run) Word() checker.Verdict {
	if r.Verdict == nil {
		return notChecked
	}
	return r.Verdict.Verdict
}

func (r *run) invalidReasons() []string {
	var out []string
	for _, p := range r.Verdict.Properties {
		if p.Status != checker.StatusInvalid {
			continue
		}
		for _, v := range p.Violations {
			out = append(out, sentenceCase(v.Message))
		}
		if len(p.Violations) == 0 && p.Detail != "" {
			out = append(out, sentenceCase(p.Detail))
		}
	}
	return out
}

// sentenceCase begins s with a capital, unless its first word is a name such as
// w1.2/c3 or P3, and ends it with a full stop.
func sentenceCase(s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return ""
	}
	first, _, _ := strings.Cut(s, " ")
	if c, n := utf8.DecodeRuneInString(s); unicode.IsLower(c) && !strings.ContainsFunc(first, unicode.IsDigit) {
		s = string(unicode.ToUpper(c)) + s[n:]
	}
	if !strings.ContainsAny(s[len(s)-1:], ".!?:") {
		s += "."
	}
	return s
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// times writes a ratio: ×0.94, ×3.2, ×27.
func times(v float64) string {
	switch {
	case v <= 0:
		return "–"
	case v < 2:
		return fmt.Sprintf("×%.2f", v)
	case v < 10:
		return fmt.Sprintf("×%.1f", v)
	}
	return fmt.Sprintf("×%.0f", v)
}
