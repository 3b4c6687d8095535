package osproc

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// SignalGroup signals a process that leads a group of its own, and all that it started
// in turn. One that is gone is no error.
func SignalGroup(pid int, sig syscall.Signal) error {
	if err := syscall.Kill(-pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// Words of a log that an error quotes.
const (
	quotedLines = 6
	quotedBytes = 2 << 10
)

// LastWords is the end of a program's log, as the end of an error's text.
func LastWords(log string) string {
	b, err := os.ReadFile(log)
	if err != nil {
		return fmt.Sprintf(" (its log cannot be read: %v)", err)
	}
	text := strings.TrimSpace(string(b[max(0, len(b)-quotedBytes):]))
	if text == "" {
		return fmt.Sprintf(" (its log %s is empty)", log)
	}
	lines := strings.Split(text, "\n")
	return fmt.Sprintf("\n  the end of its log %s:\n    %s", log, strings.Join(lines[max(0, len(lines)-quotedLines):], "\n    "))
}
