package chart

import (
	"fmt"
	"image/color"
	"regexp"
	"strconv"
	"strings"
)

// Color is a named colour with a value for each scheme, as #RRGGBB.
type Color struct {
	Name, Light, Dark string
}

// Var is the colour as a CSS value.
func (c Color) Var() string { return "var(--" + c.Name + "," + c.Light + ")" }

// rgba is the light value for gonum, which themed later turns into Var.
func (c Color) rgba(alpha float64) color.Color {
	v, err := strconv.ParseUint(strings.TrimPrefix(c.Light, "#"), 16, 32)
	if err != nil {
		return color.Black // the palette is fixed; a test reads every value
	}
	return color.NRGBA{R: uint8(v >> 16), G: uint8(v >> 8), B: uint8(v), A: uint8(alpha*255 + 0.5)}
}

// The palette. Light values differ by more than rounding, since they are how a
// drawn SVG's colours are recognised.
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
	return fmt.Sprintf(":root{color-scheme:light dark;%s}\n@media screen and (prefers-color-scheme:dark){:root{%s}}\n", light.String(), dark.String())
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

// fontStack has Liberation Sans's metrics first: gonum measures text with them.
const fontStack = "'Liberation Sans',Arial,Helvetica,sans-serif"

var (
	hexColor  = regexp.MustCompile(`#[0-9A-Fa-f]{6}\b`)
	fontStyle = regexp.MustCompile(`font-family:[^;"]*;font-variant:[^;"]*;font-weight:([^;"]*);font-style:[^;"]*;`)
	svgOpen   = regexp.MustCompile(`(?s)^.*?<svg width="[^"]*" height="[^"]*" viewBox="([^"]*)"\s*xmlns="[^"]*"\s*xmlns:xlink="[^"]*">`)
)

// themed turns an SVG of gonum into one of the page: colours by variable, the
// page's fonts, no fixed size.
func themed(raw string, s SVG) SVG {
	raw = hexColor.ReplaceAllStringFunc(raw, func(h string) string {
		for _, c := range Palette() {
			if near(h, c.Light) {
				return c.Var()
			}
		}
		return h
	})
	raw = fontStyle.ReplaceAllStringFunc(raw, func(m string) string {
		if w := fontStyle.FindStringSubmatch(m)[1]; w != "normal" {
			return "font-weight:" + w + ";"
		}
		return ""
	})
	raw = svgOpen.ReplaceAllString(raw, "")
	raw = strings.TrimSuffix(strings.TrimSpace(raw), "</svg>")
	s.body = strings.ReplaceAll(raw, "\n\t", " ")
	return s
}

// near says that two colours are the same but for rounding: a colour with an
// alpha comes back from gonum off by one.
func near(a, b string) bool {
	x, errX := strconv.ParseUint(a[1:], 16, 32)
	y, errY := strconv.ParseUint(b[1:], 16, 32)
	if errX != nil || errY != nil {
		return false
	}
	for shift := 0; shift <= 16; shift += 8 {
		d := int(x>>shift&0xFF) - int(y>>shift&0xFF)
		if d < -nearBy || d > nearBy {
			return false
		}
	}
	return true
}

const nearBy = 1
