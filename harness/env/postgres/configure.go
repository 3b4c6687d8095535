package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"fencepost/harness/env/osproc"
)

// configuring keeps two changes of a server's configuration apart.
var configuring sync.Mutex

// Configure changes a setting of a running server as its administrator does (ALTER SYSTEM and a
// reload; the role that programs log in as may not): for all sessions, open ones too, which get
// to know of it a moment after Configure returns. "" takes the change back.
func Configure(s *osproc.Service, setting, value string) error {
	configuring.Lock()
	defer configuring.Unlock()
	conf := filepath.Join(s.Dir, dataName, "postgresql.auto.conf")
	had, err := os.ReadFile(conf)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	lines := slices.DeleteFunc(strings.SplitAfter(string(had), "\n"), func(l string) bool { return strings.HasPrefix(l, setting+" = ") })
	if value != "" {
		lines = append(lines, fmt.Sprintf("%s = '%s'\n", setting, strings.ReplaceAll(value, "'", "''")))
	}
	// In one step: a server that starts reads it too.
	if err := os.WriteFile(conf+".new", []byte(strings.Join(lines, "")), 0o600); err != nil {
		return err
	}
	if err := os.Rename(conf+".new", conf); err != nil {
		return err
	}
	pid := s.PID()
	if pid == 0 {
		return fmt.Errorf("set %s: %s does not run", setting, s.Name)
	}
	return syscall.Kill(pid, syscall.SIGHUP)
}
