package chart

import (
	"fmt"
	"html"
	"html/template"
	"strconv"
	"strings"
)

// SVG is a drawn chart.
type SVG struct {
	Name  string // of its file, without extension
	Title string // what it shows, also for a screen reader
	W, H  float64
	body  string
}

// Empty says that there was nothing to draw.
func (s SVG) Empty() bool { return s.body == "" }

// Inline is the chart as an element of the page, "" if it is empty.
func (s SVG) Inline() template.HTML {
	if s.Empty() {
		return ""
	}
	// The text is made here from numbers, palette names and escaped strings only.
	return template.HTML(fmt.Sprintf(`<svg class="plot" role="img" aria-label="%s" viewBox="0 0 %s %s">%s</svg>`, //nolint:gosec
		html.EscapeString(s.Title), num(s.W), num(s.H), s.body))
}

// File is the chart as a file by itself.
func (s SVG) File() string {
	return fmt.Sprintf("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"+
		`<svg xmlns="http://www.w3.org/2000/svg" class="plot" role="img" width="%[1]s" height="%[2]s" viewBox="0 0 %[1]s %[2]s"><title>%[3]s</title>`+
		"<style>%[4]s%[5]ssvg{background:%[6]s}</style>%[7]s</svg>\n",
		num(s.W), num(s.H), html.EscapeString(s.Title), CSS(), PlotCSS(), Card.Var(), s.body)
}

// PlotCSS styles the elements that charts are made of. It stands once in a page.
func PlotCSS() string {
	return `.plot{font-family:` + fontStack + `;font-size:11px}` +
		`.plot text{fill:var(--ink)}` +
		`.plot .m{fill:var(--muted)}.plot .bad{fill:var(--fail)}.plot .b{font-weight:600}.plot .s{font-size:10px}.plot .t{font-size:12.5px;font-weight:600}` +
		`.plot .ax{stroke:var(--line);fill:none}.plot .gr{stroke:var(--grid);fill:none}` +
		`.plot .ph{stroke:var(--muted);stroke-dasharray:2 3;fill:none}` +
		`.plot .lane{fill:var(--sunken)}` +
		`.plot .mid{text-anchor:middle}.plot .end{text-anchor:end}` +
		`.plot .o-ok{fill:var(--ok)}.plot .o-fail{fill:var(--fail)}.plot .o-unknown{fill:var(--unknown)}` +
		`.plot .e-unknown{fill:none;stroke:var(--unknown);stroke-dasharray:3 2}` +
		`.plot .bar{stroke:var(--card);stroke-width:.6}.plot .ctx{opacity:.32}` +
		`.plot .inbar{fill:var(--card);font-weight:600}` +
		`.plot .ent{fill:var(--entitled);opacity:.9}.plot .entbg{fill:var(--entitled);opacity:.13}` +
		`.plot .clash{fill:var(--fail);opacity:.16}.plot .clashline{stroke:var(--fail);fill:none}` +
		`.plot .mark{fill:var(--ink)}.plot .lead{stroke:var(--muted);stroke-width:.7;fill:none}` +
		`.plot .many{fill:var(--muted);opacity:.45}` +
		`.plot .halo{paint-order:stroke;stroke:var(--card);stroke-width:3px;stroke-linejoin:round}` +
		`.plot .box{fill:var(--card);stroke:var(--line)}.plot .boxbad{fill:var(--card);stroke:var(--fail);stroke-width:1.6}` +
		`.plot .brk{fill:var(--card)}.plot .brkline{stroke:var(--muted);fill:none;stroke-width:.9}`
}

// drawing collects SVG elements. Text is escaped; numbers have one decimal.
type drawing struct{ b strings.Builder }

func num(v float64) string {
	s := strconv.FormatFloat(v, 'f', 1, 64)
	return strings.TrimSuffix(s, ".0")
}

// attr adds an attribute that is not empty.
func attr(name, value string) string {
	if value == "" {
		return ""
	}
	return " " + name + `="` + html.EscapeString(value) + `"`
}

func titled(tag, title string) string {
	if title == "" {
		return "/>"
	}
	return "><title>" + html.EscapeString(title) + "</title></" + tag + ">"
}

func (d *drawing) rect(x, y, w, h float64, class, style, title string) {
	fmt.Fprintf(&d.b, `<rect x="%s" y="%s" width="%s" height="%s"%s%s%s`, num(x), num(y), num(max(w, 0)), num(max(h, 0)), attr("class", class), attr("style", style), titled("rect", title))
}

func (d *drawing) line(x1, y1, x2, y2 float64, class, style string) {
	fmt.Fprintf(&d.b, `<path d="M%s %sL%s %s"%s%s/>`, num(x1), num(y1), num(x2), num(y2), attr("class", class), attr("style", style))
}

func (d *drawing) path(data, class, style, title string) {
	fmt.Fprintf(&d.b, `<path d="%s"%s%s%s`, data, attr("class", class), attr("style", style), titled("path", title))
}

func (d *drawing) text(x, y float64, class, s string) {
	fmt.Fprintf(&d.b, `<text x="%s" y="%s"%s>%s</text>`, num(x), num(y), attr("class", class), html.EscapeString(s))
}

func (d *drawing) raw(s string) { d.b.WriteString(s) }

// textWidth estimates the width of s at size px; sans fonts average 0.53 em.
func textWidth(s string, size float64) float64 { return float64(len([]rune(s))) * size * 0.54 }

// clip shortens s to fit width at size px.
func clip(s string, width, size float64) string {
	r := []rune(s)
	n := int(width / (size * 0.54))
	if len(r) <= n {
		return s
	}
	if n < 2 {
		return ""
	}
	return string(r[:n-1]) + "…"
}
