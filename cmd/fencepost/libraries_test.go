package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fencepost/harness/target/system"
)

// TestLibraries: what a scheduler's program says of its library is what doctor shows and what a run is
// refused with.
func TestLibraries(t *testing.T) {
	t.Parallel()
	sys, err := system.Find("bullmq")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ script, refusal, shown string }{
		{"echo /cache/bullmq with node >&1", "", "ok       bullmq      /cache/bullmq with node\n"},
		{"", "", ""},
		{"echo 'node is not in PATH: run scripts/fetch-library bullmq' >&2; exit 1", "system bullmq: run scripts/fetch-library bullmq: node is not in PATH",
			"note     bullmq      node is not in PATH; other systems do without\n                     -> run scripts/fetch-library bullmq\n"},
		{"exit 3", "system bullmq: run make systems: exit status 3", "note     bullmq      exit status 3; other systems do without\n                     -> run make systems\n"},
	} {
		bin := t.TempDir()
		script := "#!/bin/sh\n[ \"$*\" = 'look bullmq' ] || exit 0\n" + c.script + "\n"
		if err := os.WriteFile(filepath.Join(bin, system.Queues), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if !tell(&out, checkParts("redis", bin)) || out.String() != c.shown {
			t.Errorf("%s: doctor shows %q, want %q", c.script, out.String(), c.shown)
		}
		if found := checkParts("etcd", bin); found != nil {
			t.Errorf("%+v", found)
		}
		switch err := builtHere(sys, bin); {
		case c.refusal == "" && err != nil, c.refusal != "" && (err == nil || !strings.Contains(err.Error(), c.refusal)):
			t.Errorf("%s: a run is refused with %v, want %q", c.script, err, c.refusal)
		}
	}
	if found := checkParts("redis", t.TempDir()); found != nil {
		t.Errorf("without the program: %+v", found)
	}
}
