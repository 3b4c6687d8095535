package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// settings are flags that the environment sets, too. A flag wins.
type settings struct {
	flags *pflag.FlagSet
	all   []setting
}

// setting is one of them; flag is "" if only the environment sets it, as what is on a
// command line is seen by everybody on the machine.
type setting struct {
	flag, env, help string
	text            *string // of one without a flag
}

func (s *settings) add(flag, env, help string) string {
	if strings.HasSuffix(flag, "-ms") {
		help = "in ms: " + help
	}
	s.all = append(s.all, setting{flag: flag, env: env, help: help})
	return help + " [" + env + "]"
}

func (s *settings) text(p *string, flag, env, def, help string) {
	s.flags.StringVar(p, flag, def, s.add(flag, env, help))
}

func (s *settings) int(p *int, flag, env string, def int, help string) {
	s.flags.IntVar(p, flag, def, s.add(flag, env, help))
}

func (s *settings) int64(p *int64, flag, env string, def int64, help string) {
	s.flags.Int64Var(p, flag, def, s.add(flag, env, help))
}

func (s *settings) float(p *float64, flag, env string, def float64, help string) {
	s.flags.Float64Var(p, flag, def, s.add(flag, env, help))
}

func (s *settings) bool(p *bool, flag, env, help string) {
	s.flags.BoolVar(p, flag, false, s.add(flag, env, help))
}

func (s *settings) list(p *[]string, flag, env string, def []string, help string) {
	s.flags.StringSliceVar(p, flag, def, s.add(flag, env, help+"; separated by commas"))
}

func (s *settings) secret(p *string, env, help string) {
	s.all = append(s.all, setting{env: env, help: help, text: p})
}

// read takes from the environment what no flag has set, and reports all that cannot be
// read.
func (s *settings) read(getenv func(string) string) error {
	var errs []error
	for _, x := range s.all {
		v := getenv(x.env)
		switch {
		case v == "":
		case x.flag == "":
			*x.text = v
		case !s.flags.Changed(x.flag):
			if err := s.flags.Set(x.flag, v); err != nil {
				errs = append(errs, fmt.Errorf("%s is %q: want a value as %s", x.env, v, orText(s.flags.Lookup(x.flag))))
				_ = s.flags.Set(x.flag, s.flags.Lookup(x.flag).DefValue) // nothing else is wrong with it
			}
		}
	}
	return errors.Join(errs...)
}

// orText shows what a value looks like.
func orText(f *pflag.Flag) string {
	if f.Value.Type() == "bool" {
		return "true or false"
	}
	return f.DefValue + ", of type " + f.Value.Type()
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

// secretsHelp tells of what has no flag.
func (s *settings) secretsHelp() string {
	var b strings.Builder
	for _, x := range s.all {
		if x.flag == "" {
			fmt.Fprintf(&b, "      %-28s %s\n", x.env, x.help)
		}
	}
	return b.String()
}

// table writes all settings as a table in Markdown.
func (s *settings) table(w io.Writer) {
	fmt.Fprintf(w, "| environment | flag | default | |\n|---|---|---|---|\n")
	for _, x := range s.all {
		flag, def := "", ""
		if x.flag != "" {
			flag = "--" + x.flag
			if def = s.flags.Lookup(x.flag).DefValue; x.flag == "name" {
				def = "the machine's"
			}
			def = strings.Trim(def, "[]")
		}
		fmt.Fprintf(w, "| `%s` | %s | %s | %s |\n", x.env, flag, def, strings.ReplaceAll(x.help, "|", "\\|"))
	}
}
