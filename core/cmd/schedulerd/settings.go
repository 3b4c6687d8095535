package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// settings are flags that the environment sets, too. A flag wins. Secrets have no flags,
// as what is on a command line is seen by everybody on the machine.
//
// A library of flags and variables, such as github.com/peterbourgon/ff/v4, would take the
// place of the first lines of read alone. Rules, milliseconds, secrets, all errors at once,
// variables that are no setting and the page of docs would stay.
type settings struct {
	flags, secrets *pflag.FlagSet // by flag, and by variable
	all            []setting
}

// setting is one of them.
type setting struct {
	group, env, help string
	flag             string // "": it is a secret
	in               *pflag.FlagSet
	*pflag.Flag
	value
}

func newSettings(flags *pflag.FlagSet) *settings {
	return &settings{flags: flags, secrets: pflag.NewFlagSet("", pflag.ContinueOnError)}
}

// group returns what adds a row to a group.
func (s *settings) group(name string) func(flag, env string, v value, help string) {
	return func(flag, env string, v value, help string) {
		x := setting{group: name, flag: flag, env: env, help: help, value: v, in: s.flags}
		if flag == "" {
			x.in = s.secrets
		}
		v.bind(x.in, cmp.Or(flag, env))
		x.Flag = x.in.Lookup(cmp.Or(flag, env))
		switch x.Value.(type) {
		case *millis:
			x.help = "in ms: " + help
		case pflag.SliceValue:
			x.help += "; separated by commas"
		}
		x.Usage = x.help + " [" + env + "]"
		s.all = append(s.all, x)
	}
}

// read takes from the environment what no flag has set, and reports all that cannot be
// read or breaks a rule.
func (s *settings) read(getenv func(string) string) error {
	var errs []error
	for _, x := range s.all {
		if v := getenv(x.env); v != "" && !x.Changed {
			if err := x.in.Set(x.Name, v); err != nil {
				errs = append(errs, fmt.Errorf("%s is %q: want a value as %s", x.env, v, x.example()))
				_ = x.in.Set(x.Name, x.DefValue) // nothing else is wrong with it
			}
		}
		for _, wrong := range x.wrong() {
			errs = append(errs, fmt.Errorf("--%s %s", x.flag, wrong))
		}
	}
	return errors.Join(errs...)
}

// example shows what a value looks like.
func (x setting) example() string {
	if x.Value.Type() == "bool" {
		return "true or false"
	}
	return x.DefValue + ", of type " + x.Value.Type()
}

// unknown are variables that look like settings and are none.
func (s *settings) unknown(environ []string) (out []string) {
	known := map[string]bool{}
	for _, x := range s.all {
		known[x.env] = true
	}
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, "WORKER_") && !known[name] || name == "LOCK_SEQ_BLOCK_SIZE" {
			out = append(out, name)
		}
	}
	return out
}

// secretsHelp lists what has no flag.
func (s *settings) secretsHelp() string {
	var b strings.Builder
	for _, x := range s.all {
		if x.flag == "" {
			fmt.Fprintf(&b, "      %-28s %s\n", x.env, x.help)
		}
	}
	return b.String()
}

// table writes docs/settings.md.
func (s *settings) table(w io.Writer) {
	fmt.Fprint(w, "# Settings of schedulerd\n\nGenerated from the settings in [core/cmd/schedulerd](../core/cmd/schedulerd) by `make docs`; do not edit.\n"+
		"`schedulerd settings` writes this page, and `schedulerd --help` shows the same settings in a terminal.\n")
	group := ""
	for _, x := range s.all {
		if x.group != group {
			group = x.group
			fmt.Fprintf(w, "\n## %s\n\n| environment | flag | default | allowed | |\n|---|---|---|---|---|\n", group)
		}
		flag, def := "", strings.Trim(x.DefValue, "[]")
		if x.flag != "" {
			flag = "--" + x.flag
		}
		if x.flag == "name" {
			def = "the machine's"
		}
		fmt.Fprintf(w, "| `%s` | %s | %s | %s | %s |\n", x.env, flag, def, strings.Join(x.wants, ", "), strings.ReplaceAll(x.help, "|", "\\|"))
	}
}
