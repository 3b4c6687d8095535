package osproc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The first line of an error is quoted, however much stands between it and the end.
func TestQuote(t *testing.T) {
	t.Parallel()
	lines := func(format string, n int) (out string) {
		for i := range n {
			out += fmt.Sprintf(format+"\n", i)
		}
		return out
	}
	for name, c := range map[string]struct {
		log  string
		n    int
		has  []string
		less []string
	}{
		"short":      {"a\nb\n", 2, []string{"a", "b"}, nil},
		"no error":   {lines("line %d", 50), 6, []string{"line 44", "line 49"}, []string{"line 43"}},
		"panic":      {lines("before %d", 50) + "panic: nil map\n\ngoroutine 7 [running]:\n" + lines("frame %d", 100), 24 + 1 + 6, []string{"panic: nil map", "goroutine 7 [running]:", "…", "frame 99"}, []string{"before 49", "frame 60"}},
		"python":     {lines("before %d", 50) + "Traceback (most recent call last):\n" + lines("  File %d", 12) + "ValueError: 3\n", 14, []string{"Traceback (most recent call last):", "ValueError: 3"}, []string{"before 49", "…"}},
		"an error":   {lines("before %d", 10) + "ERROR [main] disk on fire\n" + lines("after %d", 40), 31, []string{"ERROR [main] disk on fire", "after 39"}, []string{"before 9"}},
		"worse ones": {"WARN error=timeout\n" + lines("x %d", 40) + "fatal error: all goroutines are asleep\n" + lines("frame %d", 3), 6, []string{"fatal error: all goroutines are asleep"}, []string{"WARN"}},
		"hangs":      {"SIGQUIT: quit\n\ngoroutine 0 gp=0x1 [idle]:\nruntime.futex()\n\ngoroutine 1 [select]:\nmain.main()\n\nrax    0x1\nrip    0x2\n", 4, []string{"goroutine 1 [select]:"}, []string{"futex", "rip"}},
		"long":       {"panic: " + strings.Repeat("é", 400) + "\n", 1, []string{" …"}, nil},
		"empty":      {"\n", 0, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "log")
			earlier := "panic: of the life before\n"
			if err := os.WriteFile(file, []byte(earlier+c.log), 0o644); err != nil {
				t.Fatal(err)
			}
			got := Quote(file, int64(len(earlier)))
			text := strings.Join(got, "\n")
			if len(got) != c.n {
				t.Errorf("%d lines, want %d:\n%s", len(got), c.n, text)
			}
			for _, w := range c.has {
				if !strings.Contains(text, w) {
					t.Errorf("no %q in:\n%s", w, text)
				}
			}
			for _, w := range append(c.less, "of the life before") {
				if strings.Contains(text, w) {
					t.Errorf("%q in:\n%s", w, text)
				}
			}
		})
	}
	if got := Quote("/nonexistent", 0); len(got) != 1 || !strings.Contains(got[0], "cannot be read") {
		t.Errorf("%q", got)
	}
}
