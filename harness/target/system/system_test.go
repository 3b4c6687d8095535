package system

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fencepost/harness/env/cluster/servers"
)

// TestStored: the locks on other stores are those that their program has, each on a store that
// there is; their command line is that program with their name.
func TestStored(t *testing.T) {
	t.Parallel()
	programs, has := map[string]string{}, 0
	for binary, dir := range map[string]string{Locks: "cmd/locks", Queues: "cmd/schedulers", Queues + "-temporal": "temporal"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "systems", dir, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		programs[binary] = string(text)
		has += strings.Count(string(text), "{Open: ") + strings.Count(string(text), "{Setup: ")
	}
	all, commands := slices.Concat(stored, reported), map[string]bool{"none": true} // of a benchmark
	for _, s := range all {
		commands[s.Command[0]] = true
	}
	if has != len(commands) {
		t.Errorf("the programs have %d locks and schedulers, and there are %d systems", has, len(commands))
	}
	makefile, err := os.ReadFile(filepath.Join("..", "..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		program, release, _ := strings.Cut(s.Binary, "-")
		if s.OptIn {
			program, release = s.Binary, ""
		}
		if _, err := os.Stat(filepath.Join("..", "..", "..", "systems", "releases", release+".mod")); release != "" && err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		if !strings.Contains(programs[program], `"`+s.Command[0]+`":`) {
			t.Errorf("%s has no %s", s.Binary, s.Name)
		}
		_, err := servers.Of(s.Store)
		first, _, _ := strings.Cut(s.Name, "-")
		kind, _, _ := strings.Cut(s.Store, "-")
		if named := strings.Contains(string(makefile), "\nOPT_IN := "+kind+"\n"); named != s.OptIn {
			t.Errorf("%s is built by its name alone: %t, and the Makefile says %t", s.Name, s.OptIn, named)
		}
		if err != nil || first != kind && !strings.Contains(string(makefile), "\nstore_of_"+first+" := "+kind+"\n") {
			t.Errorf("%s is on %q: %v", s.Name, s.Store, err)
		}
		found, err := Find(s.Name)
		if err != nil || found.Design() != Exec || !slices.Equal(found.Words("/bin"), append([]string{"/bin/" + s.Binary}, s.Command...)) {
			t.Errorf("%+v, %v", found, err)
		}
	}
	own, err := Find("exec:python3 mine.py")
	if err != nil || !slices.Equal(own.Words("/bin"), []string{"python3", "mine.py"}) || own.Store != "" {
		t.Errorf("%+v, %v", own, err)
	}
	if _, err := Find("redis-get"); err == nil || !strings.Contains(err.Error(), "redis-set") {
		t.Errorf("a system that there is not: %v", err)
	}
}
