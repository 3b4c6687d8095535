package terminal

import (
	"bytes"
	"os"
	"testing"
)

func TestOnlyATerminalGetsEscapes(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	none := func(string) string { return "" }
	for _, s := range []Style{Of(w, none), Of(&bytes.Buffer{}, none)} {
		if s != (Style{}) || s.Red("x") != "x" || s.Verdict("PASS", "y") != "y" {
			t.Errorf("style %+v", s)
		}
	}
}

func TestEnvironmentTakesColoursAway(t *testing.T) {
	t.Parallel()
	slave := openPTY(t)
	for _, c := range []struct {
		env  map[string]string
		want Style
	}{
		{map[string]string{"TERM": "xterm"}, Style{Live: true, Color: true}},
		{map[string]string{"TERM": "xterm", "NO_COLOR": ""}, Style{Live: true, Color: true}},
		{map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, Style{Live: true}},
		{map[string]string{"TERM": "dumb"}, Style{}},
	} {
		got := Of(slave, func(name string) string { return c.env[name] })
		if got.Live != c.want.Live || got.Color != c.want.Color {
			t.Errorf("%v: %+v", c.env, got)
		}
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	slave := openPTY(t)
	s := Of(slave, func(string) string { return "" })
	setWidth(t, slave, 8)
	if got := s.Fit("a line that is too long"); got != "a line…" {
		t.Errorf("at 8 columns: %q", got)
	}
	setWidth(t, slave, 40)
	if got := s.Fit("a line that is too long"); got != "a line that is too long" {
		t.Errorf("at 40 columns: %q", got)
	}
	setWidth(t, slave, 0) // as a terminal that nobody told its size
	if got := s.Fit(string(make([]byte, 100))); len([]rune(got)) != 79 {
		t.Errorf("at no columns: %d", len([]rune(got)))
	}
	if got := (Style{}).Fit("a line"); got != "a line" {
		t.Errorf("no terminal: %q", got)
	}
}

func TestVerdictColoursAreAsLong(t *testing.T) {
	t.Parallel()
	s := Style{Color: true}
	for _, v := range []string{"PASS", "fail", "INVALID", "unknown", "n/a"} {
		if got := s.Verdict(v, "x"); len(got) != len(s.Red("x")) {
			t.Errorf("%s: %q", v, got)
		}
	}
}
