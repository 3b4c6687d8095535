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
	fmt.Fprintf(&d.b, `<rect x="%s" y="%s" width="%s" height="%s"%s%s%s`, num(x), num(y), num(max(w, 0)), num(max(h, 0)),
		attr("class", class), attr("style", style), titled("rect", title))
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

// Color is a named colour with a value for each scheme, as #RRGGBB.
type Color struct {
	Name, Light, Dark string
}

// Var is the colour as a CSS value.
func (c Color) Var() string { return "var(--" + c.Name + "," + c.Light + ")" }

// The palette.
var (
	Page     = Color{"page", "#F4F5F8", "#0F131B"}
	Card     = Color{"card", "#FFFFFF", "#171C27"}
	Sunken   = Color{"sunken", "#EEF0F5", "#11161F"}
	Ink      = Color{"ink", "#1A2030", "#E8ECF4"}
	Muted    = Color{"muted", "#596377", "#9BA7BC"}
	Line     = Color{"line", "#D9DEE7", "#2D3646"}
	Grid     = Color{"grid", "#E7EAF0", "#252C3A"}
	Link     = Color{"link", "#1D5FC4", "#84B4FF"}
	OKColor  = Color{"ok", "#2C6BD6", "#6FA8FF"}
	UnkColor = Color{"unknown", "#A35F00", "#F0B24C"}
	BadColor = Color{"fail", "#CC2B5E", "#FF7FA5"}
	Good     = Color{"good", "#17784A", "#4CCB8C"}
	Tail     = Color{"tail", "#7A3FC4", "#BE9BFF"} // p99
	Entitled = Color{"entitled", "#0F8A83", "#46CFC6"}
)

// Fault classes; bands of a class share a colour, and every band has its label.
var (
	faultKill      = Color{"fault-kill", "#D64545", "#FF8A8A"}
	faultPause     = Color{"fault-pause", "#6A5ACD", "#A79BFF"}
	faultPartition = Color{"fault-cut", "#C98A00", "#F2C14E"}
	faultLost      = Color{"fault-lost", "#0B8A96", "#4FD3DF"}
	faultSlow      = Color{"fault-slow", "#4E8F2F", "#93D36F"}
	faultOther     = Color{"fault-other", "#7D8596", "#A3ADBF"}
)

// holders colour the lanes by worker; fills that carry dark (light) text.
var holders = []Color{
	{"holder-1", "#A9C7F7", "#2B4F8C"},
	{"holder-2", "#F7C99E", "#85511F"},
	{"holder-3", "#A6DDB6", "#286840"},
	{"holder-4", "#F4B5CF", "#86385D"},
	{"holder-5", "#CDBAF2", "#574090"},
	{"holder-6", "#98DBD6", "#1D6764"},
	{"holder-7", "#EADC8C", "#6F631A"},
	{"holder-8", "#D4C4B5", "#605247"},
}

// HolderColor is the colour of the i-th worker.
func HolderColor(i int) Color { return holders[i%len(holders)] }

// Palette is every colour.
func Palette() []Color {
	out := []Color{
		Page, Card, Sunken, Ink, Muted, Line, Grid, Link, OKColor, UnkColor, BadColor, Good, Tail, Entitled,
		faultKill, faultPause, faultPartition, faultLost, faultSlow, faultOther,
	}
	return append(out, holders...)
}

// CSS declares the palette's variables for both schemes; print is always light.
func CSS() string {
	var light, dark strings.Builder
	for _, c := range Palette() {
		fmt.Fprintf(&light, "--%s:%s;", c.Name, c.Light)
		fmt.Fprintf(&dark, "--%s:%s;", c.Name, c.Dark)
	}
	return fmt.Sprintf(":root{color-scheme:light dark;%s}\n@media screen and (prefers-color-scheme:dark){:root{%s}}\n", light.String(),
		dark.String())
}

// FaultColor is the colour of a fault's class, by its name.
func FaultColor(name string) Color {
	for _, k := range []struct {
		part string
		c    Color
	}{
		{"kill", faultKill}, {"crash", faultKill}, {"restart", faultKill}, {"pause", faultPause}, {"stop", faultPause},
		{"partition", faultPartition}, {"lost", faultLost}, {"slow", faultSlow}, {"latency", faultSlow},
	} {
		if strings.Contains(name, k.part) {
			return k.c
		}
	}
	return faultOther
}

const fontStack = "'Liberation Sans',Arial,Helvetica,sans-serif"
