// Package arrows holds the law of the house: which directory may import which. What is
// imported stands below, so that the tree can be read from the top.
package arrows

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "fencepost/"

// floors are the directories, each with those that it may import beside itself. A package is
// of the longest one that begins its path.
var floors = map[string][]string{
	"internal":                     {},
	"scenarios":                    {},
	"scripts":                      {},
	"compose":                      {},
	"core":                         {},
	"core/mistake":                 {"core"}, // and enginetest: for tests and bin/worker-broken alone
	"core/engine/enginetest":       {"core", "core/mistake"},
	"core/service":                 {"core"},
	"core/scheduler/schedulertest": {"core", "core/service"},
	"core/cmd":                     {"core", "core/service"},
	"examples":                     {"core"},
	"harness/record":               {"internal"},
	"checker/phrase":               {},
	"checker/past":                 {"checker/phrase", "harness/record"},
	"checker/linear":               {"checker/past", "checker/phrase", "harness/record"},
	"checker/property":             {"checker/linear", "checker/past", "checker/phrase", "harness/record"},
	"checker/explain":              {"checker/past", "checker/phrase", "checker/property", "harness/record"},
	"checker":                      {"checker/explain", "checker/linear", "checker/phrase", "checker/property", "harness/record"},
	"harness/env":                  {"core", "harness/record", "scripts"},
	"harness/target":               {"core", "core/service", "examples", "harness/env", "harness/record", "internal"},
	"harness/target/system/broken": {"core", "core/mistake", "harness/record", "harness/target"}, // for bin/worker-broken alone
	"harness/fault":                {"harness/env", "harness/record", "harness/target", "internal"},
	"harness/scenario":             {"core", "harness/env", "harness/fault", "harness/record", "harness/target", "internal", "scenarios"},
	"harness/plan":                 {"core", "harness/fault", "harness/record", "harness/scenario", "harness/target"},
	"harness/run":                  {"core", "harness/env", "harness/fault", "harness/plan", "harness/record", "harness/scenario", "harness/target"},
	"reports":                      {"checker", "checker/past", "harness/record", "harness/target", "internal"},
	"bench":                        {"core", "harness/env", "harness/record", "harness/target", "internal", "reports"},
	"cmd":                          {"bench", "checker", "core", "harness/env", "harness/fault", "harness/plan", "harness/record", "harness/run", "harness/scenario", "harness/target", "internal", "reports", "scripts"},
	"e2e":                          {},
}

func floorOf(pkg string) (floor string) {
	for f := range floors {
		if (pkg == f || strings.HasPrefix(pkg, f+"/")) && len(f) > len(floor) {
			floor = f
		}
	}
	return floor
}

// TestArrows: every package is on a floor, and imports what its floor may. Tests may look
// at whatever they compare their package with.
func TestArrows(t *testing.T) {
	t.Parallel()
	list := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", module+"...")
	list.Stderr = t.Output()
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		from := strings.TrimPrefix(p.ImportPath, module)
		floor := floorOf(from)
		if floor == "" {
			t.Errorf("%s is on no floor: give its directory a row", from)
		}
		for _, i := range p.Imports {
			to, ours := strings.CutPrefix(i, module)
			if !ours || floorOf(to) == floor {
				continue
			}
			used[floor+" -> "+floorOf(to)] = true
			if !slices.Contains(floors[floor], floorOf(to)) {
				t.Errorf("%s imports %s: %s may not import %s", from, to, floor, floorOf(to))
			}
		}
	}
	for from, all := range floors {
		for _, to := range all {
			if !used[from+" -> "+to] {
				t.Errorf("nothing in %s imports %s any more: take it out", from, to)
			}
		}
	}
}
