package postgres

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fencepost/internal/exetest"

	"go.uber.org/goleak"
)

// server makes a directory with programs that say they are a server of a version.
func server(t *testing.T, dir, says string, programs ...string) string {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o755))
	for _, name := range programs {
		exetest.Write(t, filepath.Join(dir, name), "#!/bin/sh\necho '"+says+"'\n")
	}
	return dir
}

func TestLook(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		says     string
		programs []string
		version  string
		err      string
	}{
		"of Debian":       {"postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", []string{"postgres", "initdb"}, "15.18 (Debian 15.18-0+deb12u1)", ""},
		"of its makers":   {"postgres (PostgreSQL) 17.6", []string{"postgres", "initdb"}, "17.6", ""},
		"a beta":          {"postgres (PostgreSQL) 19beta1", []string{"postgres", "initdb"}, "19beta1", ""},
		"too old":         {"postgres (PostgreSQL) 9.6.24", []string{"postgres", "initdb"}, "", "is version 9.6.24"},
		"something else":  {"toaster 3", []string{"postgres", "initdb"}, "", `says "toaster 3`},
		"half a server":   {"postgres (PostgreSQL) 17.6", []string{"postgres"}, "", "has no initdb"},
		"nothing, silent": {"", nil, "", os.ErrNotExist.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := look(t.Context(), server(t, t.TempDir(), c.says, c.programs...))
			switch {
			case c.err != "":
				if err == nil || !strings.Contains(err.Error(), c.err) && !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%+v, %v, want %s", p, err, c.err)
				}
			case err != nil || p.Version != c.version || p.Major < oldest:
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
}

// Links are followed: a server looks for its files beside the real one.
func TestLookFollowsLinks(t *testing.T) {
	t.Parallel()
	real := server(t, filepath.Join(t.TempDir(), "real"), "postgres (PostgreSQL) 17.6", "postgres", "initdb")
	link := filepath.Join(t.TempDir(), "postgres")
	must(t, os.Symlink(filepath.Join(real, "postgres"), link))
	p, err := look(t.Context(), filepath.Dir(link))
	if err != nil || p.Dir != real {
		t.Errorf("%+v, %v, want %s", p, err, real)
	}
}

func TestMissingError(t *testing.T) {
	t.Parallel()
	text := (&MissingError{Tried: []string{"/x/postgres is version 9.6"}}).Error()
	for _, want := range []string{"apt-get install postgresql", "scripts/fetch-postgres", "/x/postgres is version 9.6"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
}

// The environment of a person's own PostgreSQL does not reach a server.
func TestEnviron(t *testing.T) {
	t.Setenv("PGDATA", "/somewhere")
	t.Setenv("LC_ALL", "tr_TR.UTF-8")
	env := strings.Join(environ(), "\n")
	if strings.Contains(env, "PGDATA") || strings.Contains(env, "tr_TR") || !strings.Contains(env, "LC_ALL=C") || !strings.Contains(env, "PATH=") {
		t.Error(env)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
