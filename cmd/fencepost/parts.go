package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/cluster/servers"
	"fencepost/harness/target/own"
	"fencepost/harness/target/system"
)

// part is something that a system on another store needs here.
type part struct {
	name   string // for people
	what   string // which one is here
	err    error  // it is not here
	remedy string // the command that brings it
	only   bool   // systems beside this one and its twin do without it
}

// partsOf are the parts of a system: its program, the servers of one that only its name builds, a child of
// its program, a library of another language. Only the first counts while that is missing.
func partsOf(s system.System, bin string) (out []part) {
	program := func(file, remedy string, only bool) {
		p := part{name: filepath.Base(filepath.Dir(file)), what: filepath.Join(bin, file), remedy: remedy, only: only}
		if filepath.Dir(file) == "." {
			p.name = file
		}
		if (own.Program{Words: []string{p.what}}).Look() != nil {
			p.err = fmt.Errorf("%s is not built", p.what)
		}
		out = append(out, p)
	}
	byName := "make systems SYSTEM=" + s.Name
	if s.OptIn {
		program(s.Binary, byName, true)
		out = append(out, part{name: s.Store, err: serversHere(s.Store), remedy: byName})
	} else {
		program(s.Binary, "make systems", false)
	}
	if out[0].err != nil {
		return out[:1]
	}
	if s.Child != "" {
		program(s.Child, byName, true)
	}
	if s.Binary == system.Queues {
		if p := libraryOf(s, bin); p.what != "" || p.err != nil {
			out = append(out, p)
		}
	}
	return out
}

// libraryOf asks the program of a scheduler for its library in another language; without what and err it
// needs none.
func libraryOf(s system.System, bin string) part {
	cmd := exec.Command(filepath.Join(bin, s.Binary), "look", s.Name)
	var why strings.Builder
	cmd.Stderr = &why
	found, err := cmd.Output()
	p := part{name: s.Name, what: strings.TrimSpace(string(found)), only: true}
	if err != nil {
		text, remedy, _ := strings.Cut(cmp.Or(strings.TrimSpace(why.String()), err.Error()), ": run ")
		p.err, p.remedy = errors.New(text), cmp.Or(remedy, "make systems")
	}
	return p
}

// builtHere refuses a system on another store of which a part is missing.
func builtHere(s system.System, bin string) error {
	if s.Store == "" {
		return nil
	}
	for _, p := range partsOf(s, bin) {
		if p.err != nil {
			return usageError(fmt.Errorf("system %s: run %s: %w", s.Name, p.remedy, p.err))
		}
	}
	return nil
}

// checkParts is what doctor says of the parts that not all systems on a store need. A twin with a fence has
// the same.
func checkParts(store, bin string) (out []finding) {
	for _, s := range system.Stored() {
		if s.Store != store || strings.HasSuffix(s.Name, system.Fenced) {
			continue
		}
		for _, p := range partsOf(s, bin) {
			switch {
			case !p.only:
			case p.err != nil:
				out = append(out, finding{name: p.name, detail: p.err.Error() + "; other systems do without", remedy: "run " + p.remedy})
			default:
				out = append(out, finding{name: p.name, detail: p.what})
			}
		}
	}
	return out
}

func serversHere(store string) error {
	k, err := servers.Of(store)
	if err != nil {
		return err
	}
	cache, err := cluster.CacheDir()
	if err != nil {
		return err
	}
	_, err = k.Find(context.Background(), cache)
	return err
}
