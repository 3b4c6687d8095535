package main

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"fencepost/core/service/handlers"
)

// value is where a setting goes: a variable, with its default and its rules.
type value struct {
	bind  func(fs *pflag.FlagSet, name string)
	wants []string        // the rules in words
	wrong func() []string // how they are broken, such as "is 0: want at least 1"
}

// rule is what a value must be, apart from other settings.
type rule[T any] struct {
	ok   func(T) bool
	want string
	// instead is said instead of the value, of one that may be a secret.
	instead string
}

func number[T int | int64 | float64 | time.Duration](p *T, def T, rules ...rule[T]) value {
	return ruled("is", rules, func() []T { return []T{*p} }, func(fs *pflag.FlagSet, name string) {
		switch p := any(p).(type) {
		case *int:
			fs.IntVar(p, name, int(def), "")
		case *int64:
			fs.Int64Var(p, name, int64(def), "")
		case *float64:
			fs.Float64Var(p, name, float64(def), "")
		case *time.Duration:
			*p = time.Duration(def)
			fs.Var((*millis)(p), name, "")
		}
	})
}

// text has no rules while it is empty: then it is not set.
func text(p *string, def string, rules ...rule[string]) value {
	given := func() []string { return slices.DeleteFunc([]string{*p}, func(v string) bool { return v == "" }) }
	return ruled("is", rules, given, func(fs *pflag.FlagSet, name string) { fs.StringVar(p, name, def, "") })
}

// list has rules for each element.
func list(p *[]string, def []string, rules ...rule[string]) value {
	return ruled("has", rules, func() []string { return *p }, func(fs *pflag.FlagSet, name string) { fs.StringSliceVar(p, name, def, "") })
}

func toggle(p *bool) value {
	return ruled[bool]("is", nil, nil, func(fs *pflag.FlagSet, name string) { fs.BoolVar(p, name, false, "") })
}

func ruled[T any](verb string, rules []rule[T], given func() []T, bind func(*pflag.FlagSet, string)) value {
	out := value{bind: bind}
	for _, r := range rules {
		out.wants = append(out.wants, r.want)
	}
	out.wrong = func() (wrong []string) {
		for _, r := range rules {
			for _, v := range given() {
				if !r.ok(v) {
					wrong = append(wrong, fmt.Sprintf("%s %s: want %s", verb, cmp.Or(r.instead, shown(v)), r.want))
				}
			}
		}
		return wrong
	}
	return out
}

// shown is a value as it is given.
func shown(v any) string {
	switch v := v.(type) {
	case time.Duration:
		return (*millis)(&v).String()
	case string:
		return strconv.Quote(v)
	}
	return fmt.Sprint(v)
}

// millis is a flag in whole milliseconds, as a duration.
type millis time.Duration

func (d *millis) String() string { return strconv.FormatInt(time.Duration(*d).Milliseconds(), 10) }
func (d *millis) Type() string   { return "int64" }

// Set implements pflag.Value.
func (d *millis) Set(text string) error {
	n, err := strconv.ParseInt(text, 0, 64)
	*d = millis(time.Duration(n) * time.Millisecond)
	return err
}

// Rules.

func atLeast[T cmp.Ordered](least T) rule[T] {
	return rule[T]{ok: func(v T) bool { return v >= least }, want: "at least " + shown(least)}
}

func atMost[T cmp.Ordered](most T, why string) rule[T] {
	return rule[T]{ok: func(v T) bool { return v <= most }, want: "at most " + shown(most) + why}
}

func portFrom(least int) rule[int] {
	return rule[int]{ok: func(v int) bool { return v >= least && v <= 65535 }, want: fmt.Sprintf("%d to 65535", least)}
}

func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

var (
	aURL      = rule[string]{ok: isURL, want: "http(s)://host/path"}
	secretURL = rule[string]{ok: isURL, want: aURL.want, instead: "no URL"}
	hostPort  = rule[string]{want: "host:port", ok: func(v string) bool {
		host, _, err := net.SplitHostPort(v)
		return err == nil && host != ""
	}}
	host = rule[string]{want: "host, host:port, or * alone", ok: func(v string) bool { return v == handlers.AnyHost || !strings.ContainsAny(v, "/*@ ") }}
)
