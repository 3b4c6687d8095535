package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fencepost/harness/target/system"
	"fencepost/reports"
	"fencepost/reports/evidence"
	"fencepost/scripts"
)

// TestOptIn: what only its name builds is refused with that command while its program or its server is missing, doctor
// says which, and the field's page has it once it was run.
func TestOptIn(t *testing.T) {
	sys, err := system.Find("temporal")
	if err != nil || !sys.OptIn {
		t.Fatalf("%+v, %v", sys, err)
	}
	cache, bin := t.TempDir(), t.TempDir()
	t.Setenv("FENCEPOST_CACHE", cache)
	refused := func(what string) {
		t.Helper()
		err := builtHere(sys, bin)
		var ee *exitError
		if !errors.As(err, &ee) || ee.code != exitUsage || !strings.Contains(err.Error(), "system temporal: run make systems SYSTEM=temporal: ") {
			t.Errorf("without its %s: %v", what, err)
		}
	}
	add := func(path string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	refused("program")
	var out bytes.Buffer
	if !tell(&out, checkParts("temporal", bin)) || !strings.Contains(out.String(), "-> run make systems SYSTEM=temporal\n") {
		t.Errorf("doctor shows %q", out.String())
	}
	add(filepath.Join(bin, sys.Binary))
	refused("server")
	add(filepath.Join(cache, "stores", "temporal-"+scripts.StoreVersions["temporal"], "temporal"))
	if err := builtHere(sys, bin); err != nil {
		t.Error(err)
	}
	if found := checkParts("redis", bin); found != nil {
		t.Errorf("%+v", found)
	}

	jobs, err := fieldFlags{systems: sys.Name, scenarios: "steady", seeds: 1, first: 1}.jobs()
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%v, %v", jobs, err)
	}
	for has, kept := range map[bool][]evidence.Result{false: nil, true: {{Job: jobs[0]}}} {
		page, err := reports.Field(reports.FieldKept{Systems: system.Stored(), Runs: kept}, suitsField)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(page, "| `temporal` |") != has {
			t.Errorf("with %d runs of it the page has it: %t", len(kept), !has)
		}
	}
}
