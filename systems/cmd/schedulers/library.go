package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"

	"fencepost/systems"
)

// library is a scheduler's in another language. scripts/fetch-library puts it into the cache.
type library struct {
	name string
	// program runs it, from this major and minor version on.
	program string
	oldest  [2]int
	// options of the program go before the script's text.
	options []string
	// script is what speaks with child, lock the list of versions and checksums; names of systems.Files.
	script, lock string
}

var (
	bullmq = library{"bullmq", "node", [2]int{18, 0}, []string{"--input-type=module", "--eval"}, "node/bullmq.mjs", "node/package-lock.json"}
	celery = library{"celery", "python3", [2]int{3, 10}, []string{"-c"}, "python/celery_worker.py", "python/requirements.txt"}
)

// libraries are those that schedulers here need, by the first word of a scheduler's name.
var libraries = map[string]library{"bullmq": bullmq, "celery": celery}

// dir is where scripts/fetch-library puts it: a directory for each list.
func (l library) dir() (string, error) {
	cache := os.Getenv("FENCEPOST_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(user, "fencepost")
	}
	list, err := systems.Files.ReadFile(l.lock)
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "libraries", fmt.Sprintf("%s-%.6x", l.name, sha256.Sum256(list))), nil
}

var versionOf = regexp.MustCompile(`(\d+)\.(\d+)\.\d+`)

// look says what would be run, or what is missing with its remedy.
func (l library) look() (string, error) {
	dir, err := l.dir()
	if err != nil {
		return "", err
	}
	remedy := "run scripts/fetch-library " + l.name
	path, err := exec.LookPath(l.program)
	if err != nil {
		return "", fmt.Errorf("%s is not in PATH: %s", l.program, remedy)
	}
	out, err := exec.Command(path, "--version").Output()
	v := versionOf.FindSubmatch(out)
	if err != nil || v == nil {
		return "", fmt.Errorf("%s --version fails or names none: %s", path, remedy)
	}
	major, err1 := strconv.Atoi(string(v[1]))
	minor, err2 := strconv.Atoi(string(v[2]))
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	if major < l.oldest[0] || major == l.oldest[0] && minor < l.oldest[1] {
		return "", fmt.Errorf("%s is version %s, and %d.%d is the oldest that will do: %s", path, v[0], l.oldest[0], l.oldest[1], remedy)
	}
	if _, err := os.Stat(dir); err != nil {
		return "", fmt.Errorf("its library is not in %s: %s", dir, remedy)
	}
	return fmt.Sprintf("%s with %s, version %s", dir, path, v[0]), nil
}

// command runs the script in the library's directory, where both languages look for modules.
func (l library) command() (*exec.Cmd, error) {
	if _, err := l.look(); err != nil {
		return nil, fmt.Errorf("%s: %w", l.name, err)
	}
	script, err := systems.Files.ReadFile(l.script)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(l.program, append(l.options, string(script))...)
	cmd.Dir, err = l.dir()
	return cmd, err
}
