package scripts

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestMakeSystems: the command that builds several releases of a library, with a Go that does nothing, comes to
// its end from where make runs it.
func TestMakeSystems(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("no make here: ", err)
	}
	if _, err := os.Stat("../Makefile"); err != nil { // go test runs this again when it has changed
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(in(t, "..", nil, "make", "--no-print-directory", "-n", "systems", "SET=bugs", "GO=true")) {
		if strings.Contains(line, "-modfile=") {
			in(t, "..", nil, "bash", "-c", line)
			n = strings.Count(line, "-modfile=")
		}
	}
	if n < 2 {
		t.Errorf("%d releases are built", n)
	}
}
