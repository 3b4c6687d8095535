// Package terminal says what a person's terminal can show: a line that is redrawn,
// colours, a width. The printer asks it once and passes the answer on, since the
// file and the environment may be those of another process.
package terminal

import (
	"io"
	"os"
	"unicode/utf8"

	"golang.org/x/term"
)

// Style is how to print. The zero value is plain text.
type Style struct {
	// Live: a line can be wiped and drawn again.
	Live bool
	// Color: escape sequences for colours are wanted.
	Color bool
	fd    int
}

// Of returns the style for a writer. Anything but a terminal gets plain text;
// NO_COLOR (https://no-color.org) takes the colours away, TERM=dumb everything.
func Of(w io.Writer, env func(string) string) Style {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || env("TERM") == "dumb" {
		return Style{}
	}
	return Style{Live: true, Color: env("NO_COLOR") == "", fd: int(f.Fd())}
}

// defaultWidth is for a terminal that does not tell its own.
const defaultWidth = 80

// Fit cuts a text so that it stays on one line of the terminal.
func (s Style) Fit(text string) string {
	if !s.Live {
		return text
	}
	width, _, err := term.GetSize(s.fd)
	if err != nil || width <= 0 {
		width = defaultWidth
	}
	return fit(text, width-1) // the last column may wrap
}

func fit(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	if width < 1 {
		return ""
	}
	return string([]rune(text)[:width-1]) + "…"
}

// Colours.
const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	normal = "\x1b[39m" // the terminal's own
	plain  = "\x1b[0m"
)

// Red, Green and Yellow colour a text, if colours are wanted.
func (s Style) Red(text string) string    { return s.paint(red, text) }
func (s Style) Green(text string) string  { return s.paint(green, text) }
func (s Style) Yellow(text string) string { return s.paint(yellow, text) }

func (s Style) paint(color, text string) string {
	if !s.Color {
		return text
	}
	return color + text + plain
}

// Verdict colours a verdict's name, or a property's status, or another text, as the
// verdict says. What it adds is always as long, for tables.
func (s Style) Verdict(verdict, text string) string {
	switch verdict {
	case "PASS", "pass":
		return s.Green(text)
	case "FAIL", "fail", "ERROR":
		return s.Red(text)
	case "INVALID", "invalid", "UNKNOWN", "unknown":
		return s.Yellow(text)
	}
	return s.paint(normal, text)
}
