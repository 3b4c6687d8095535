package terminal

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
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

// openPTY returns the side of a new terminal that programs write to.
func openPTY(t *testing.T) *os.File {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	return slave
}

func setWidth(t *testing.T, f *os.File, columns uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(f.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: 24}); err != nil {
		t.Fatal(err)
	}
}
