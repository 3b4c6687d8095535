// Package exetest has a test write a program that it then executes.
package exetest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Write writes an executable file, and the directory around it. No process is forked meanwhile: a child of another test
// has every file of this process open until it executes its own program, and Linux executes
// no file that anybody has open for writing (golang/go#22315, "text file busy").
func Write(t testing.TB, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755))
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
}
