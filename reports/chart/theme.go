package chart

import (
	"fmt"
	"strings"
)

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

const fontStack = "'Liberation Sans',Arial,Helvetica,sans-serif"
