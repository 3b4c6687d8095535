package osproc

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"fencepost/harness/record/history"
)

// What is quoted of a log.
const (
	quotedBytes = 1 << 20 // of its end are looked through
	quotedTail  = 6       // lines of its end
	quotedError = 24      // lines from the first that tells of an error on
	quotedLine  = 300     // bytes of a line
)

// Quote is what a log says of a program's end, of what was added to it since the byte
// from: the first line that tells of an error, with what follows it, and the last lines.
// It says so if it cannot be read.
func Quote(log string, from int64) []string {
	lines, err := linesOf(log, from)
	if err != nil {
		return []string{fmt.Sprintf("(its log cannot be read: %v)", err)}
	}
	tail := max(0, len(lines)-quotedTail)
	at := history.FirstError(lines)
	if at < 0 || at >= tail {
		return lines[tail:]
	}
	end := min(at+quotedError, len(lines))
	out := append([]string{}, lines[at:end]...)
	if end < tail {
		out = append(out, "…")
	}
	return append(out, lines[max(end, tail):]...)
}

// linesOf are the lines of a log since the byte from, each cut to what is quoted of it.
func linesOf(log string, from int64) ([]string, error) {
	b, err := os.ReadFile(log)
	if err != nil {
		return nil, err
	}
	b = b[min(from, int64(len(b))):]
	text := strings.TrimSpace(string(b[max(0, len(b)-quotedBytes):]))
	if text == "" {
		return nil, nil
	}
	lines := withoutRegisters(mainFirst(strings.Split(text, "\n")))
	for i, l := range lines {
		if l = strings.TrimRight(l, "\r"); len(l) > quotedLine {
			l = strings.ToValidUTF8(l[:quotedLine], "") + " …"
		}
		lines[i] = strings.ToValidUTF8(l, "?")
	}
	return lines, nil
}

// mainFirst leaves out, of the stacks of all goroutines that Go prints on SIGQUIT, those
// before the main one's: they are of the runtime, and of who waits for signals.
func mainFirst(lines []string) []string {
	quit := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "SIGQUIT: ") })
	at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "goroutine 1 ") })
	if quit < 0 || at < quit {
		return lines
	}
	return slices.Delete(lines, quit+1, at)
}

// withoutRegisters leaves out the processor's registers, with which Go's stacks end.
func withoutRegisters(lines []string) []string {
	at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "rax    0x") || strings.HasPrefix(l, "r0      0x") })
	if at < 0 {
		return lines
	}
	return lines[:at]
}

// LastWords is Quote as the end of an error's text.
func LastWords(log string, from int64) string {
	lines := Quote(log, from)
	if len(lines) == 0 {
		return fmt.Sprintf(" (its log %s is empty)", log)
	}
	return fmt.Sprintf("\n  from its log %s:\n    %s", log, strings.Join(lines, "\n    "))
}
