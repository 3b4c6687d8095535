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
	program, err := os.ReadFile(filepath.Join("..", "..", "..", "systems", "cmd", Locks, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	if has := strings.Count(string(program), "{Open: ") + strings.Count(string(program), "{Setup: "); has != len(stored) {
		t.Errorf("the program has %d locks, and there are %d systems", has, len(stored))
	}
	for _, s := range stored {
		if !strings.Contains(string(program), `"`+s.Name+`":`) {
			t.Errorf("the program has no %s", s.Name)
		}
		k, err := servers.Of(s.Store)
		if err != nil || !strings.HasPrefix(s.Name, k.Name+"-") { // by which the Makefile knows the store
			t.Errorf("%s is on %q: %v", s.Name, s.Store, err)
		}
		found, err := Find(s.Name)
		if err != nil || found.Design() != Exec || !slices.Equal(found.Words("/bin"), []string{"/bin/" + Locks, s.Name}) {
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
