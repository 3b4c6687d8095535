package main

import (
	"os"
	"path/filepath"
)

// latest is by which name people call the newest run in a directory of runs. It is a
// convenience, so a failure to make it is no error.
const latest = "latest"

// latestRun is the newest run's name, "" if there is none.
func latestRun(runs string) string {
	name, err := os.Readlink(filepath.Join(runs, latest))
	if err != nil {
		return ""
	}
	return name
}

// linkLatest calls a run's directory the newest. "" is a run that did not come to have
// one: then nobody is, and not the one before.
func linkLatest(runs, dir string) {
	if dir == "" {
		_ = os.Remove(filepath.Join(runs, latest))
		return
	}
	link := filepath.Join(filepath.Dir(dir), latest)
	tmp := link + ".tmp"
	_ = os.Remove(tmp)
	if os.Symlink(filepath.Base(dir), tmp) == nil {
		_ = os.Rename(tmp, link)
	}
}

// forgetLatest calls nobody the newest if a command could not carry out what it had to and
// the newest is still the one from before it: it is not what was asked for.
func forgetLatest(runs, before string, err error) {
	if err == nil || exitCodeOf(err) != exitNotDone || latestRun(runs) != before {
		return
	}
	linkLatest(runs, "")
}
