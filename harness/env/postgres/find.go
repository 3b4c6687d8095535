package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"fencepost/scripts"
)

// oldest is the oldest major version that works: the oldest that its makers still mended
// in 2025.
const oldest = 13

// Program is an installed server.
type Program struct {
	// Dir has postgres and initdb, without symbolic links.
	Dir string
	// Version is what the server says of itself: "15.18 (Debian 15.18-0+deb12u1)".
	Version string
	Major   int
}

func (p Program) path(name string) string { return filepath.Join(p.Dir, name) }

// MissingError says that no usable server was found.
type MissingError struct {
	// Tried are the places with what was wrong there.
	Tried []string
}

func (e *MissingError) Error() string {
	msg := fmt.Sprintf("no PostgreSQL server of version %d or newer: install one (Debian and Ubuntu: apt-get install postgresql), or run scripts/fetch-postgres", oldest)
	for _, t := range e.Tried {
		msg += "\n  - " + t
	}
	return msg
}

// debianDirs is where Debian and its kin keep each major version.
const debianDirs = "/usr/lib/postgresql/*/bin"

// Fetched is where scripts/fetch-postgres puts its server.
func Fetched(cacheDir string) string {
	return filepath.Join(cacheDir, "postgres", scripts.PostgresVersion, "bin")
}

// Find finds a server: in PATH, where Debian keeps it (the newest), in the cache. The
// error is a *[MissingError].
func Find(ctx context.Context, cacheDir string) (Program, error) {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	debian, err := filepath.Glob(debianDirs)
	if err != nil {
		return Program{}, err
	}
	slices.SortFunc(debian, func(a, b string) int { return majorOf(b) - majorOf(a) })
	dirs = append(append(dirs, debian...), Fetched(cacheDir))
	missing := &MissingError{}
	for _, dir := range dirs {
		p, err := look(ctx, dir)
		if err == nil {
			return p, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			missing.Tried = append(missing.Tried, err.Error())
		}
	}
	return Program{}, missing
}

// majorOf reads the version in a directory's name.
func majorOf(dir string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
	return n
}

var versionLine = regexp.MustCompile(`^postgres \(PostgreSQL\) ((\d+)\S*( \(.*\))?)`)

// look asks the server of a directory for its version.
func look(ctx context.Context, dir string) (Program, error) {
	// Packages are made of links; the server looks for its files beside the real one.
	real, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
	if err != nil {
		return Program{}, err
	}
	p := Program{Dir: filepath.Dir(real)}
	if _, err := os.Stat(p.path("initdb")); err != nil {
		return Program{}, fmt.Errorf("%s has no initdb: it is not a whole server", p.Dir)
	}
	cmd := exec.CommandContext(ctx, real, "--version")
	cmd.Env = environ()
	out, err := cmd.Output()
	if err != nil {
		return Program{}, fmt.Errorf("%s --version: %w", real, err)
	}
	m := versionLine.FindStringSubmatch(string(out))
	if m == nil {
		return Program{}, fmt.Errorf("%s --version says %q", real, out)
	}
	p.Version = m[1]
	p.Major, _ = strconv.Atoi(m[2])
	if p.Major < oldest {
		return Program{}, fmt.Errorf("%s is version %s", real, p.Version)
	}
	return p, nil
}
