package paxos

import (
	"errors"
	"strings"
	"testing"

	"fencepost/core/store"
)

func timeout() result {
	return result{err: &store.Error{Op: "cas", Outcome: store.Unknown, ServerTimeout: true, Cause: errors.New("received only 1 responses\nagain")}}
}

func TestArmed(t *testing.T) {
	t.Parallel()
	promised := paxosState{promised: "b2"}
	only := states{victim: {promised: "b2", accepted: "b2"}, witness: promised, third: promised}
	done := paxosState{promised: "b1", commit: "b1"}
	second := states{
		victim:  {promised: "b2", accepted: "b2", commit: "b1"},
		witness: {promised: "b2", commit: "b1"}, third: {promised: "b2", commit: "b1"},
	}
	with := func(s states, name string, p paxosState) states {
		out := states{}
		for n, v := range s {
			out[n] = v
		}
		out[name] = p
		return out
	}
	for name, c := range map[string]struct {
		before, now states
		res         result
		want        string // "" if armed
	}{
		"a first write":         {nil, only, timeout(), ""},
		"a second write":        {states{victim: done, witness: done, third: done}, second, timeout(), ""},
		"applied":               {nil, only, result{applied: true}, "was answered: applied"},
		"rejected":              {nil, only, result{row: &store.Version{Fence: 7}}, "was answered: rejected"},
		"the client's timeout":  {nil, only, result{err: &store.Error{Cause: errors.New("deadline")}}, "not ended by its coordinator"},
		"refused":               {nil, only, result{err: &store.Error{Outcome: store.Fail, Cause: errors.New("unavailable")}}, "not ended by its coordinator"},
		"nothing accepted":      {nil, states{victim: promised, witness: promised, third: promised}, timeout(), "n1 has accepted no proposal"},
		"an old proposal":       {states{victim: {accepted: "b2"}}, only, timeout(), "n1 has accepted no proposal"},
		"accepted by n2 too":    {nil, with(only, witness, paxosState{accepted: "b2"}), timeout(), "n2 has accepted"},
		"accepted by n3 too":    {nil, with(only, third, paxosState{accepted: "b2"}), timeout(), "n3 has accepted"},
		"committed at n3 later": {nil, with(only, third, paxosState{commit: "b2"}), timeout(), "n3 has accepted or committed"},
		"nothing known":         {nil, states{}, timeout(), "n1 has accepted no proposal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			armed, text := c.now.armed(c.before, c.res)
			if armed != (c.want == "") || !strings.Contains(text, c.want) || strings.Contains(text, "\n") {
				t.Errorf("armed %v, %q; want %q", armed, text, c.want)
			}
		})
	}
}

func TestPromisedSince(t *testing.T) {
	t.Parallel()
	p := func(a, b, c string) states {
		return states{victim: {promised: a}, witness: {promised: b}, third: {promised: c}}
	}
	for name, c := range map[string]struct {
		before, now states
		want        bool
	}{
		"both":                 {nil, p("", "b1", "b1"), true},
		"both, again":          {p("b1", "b1", "b1"), p("b1", "b2", "b2"), true},
		"one only":             {nil, p("b1", "b1", ""), false},
		"the victim only":      {nil, p("b1", "", ""), false},
		"an old promise alone": {p("b1", "b1", "b1"), p("b2", "b2", "b1"), false},
		"none":                 {nil, states{}, false},
	} {
		if got := c.now.promisedSince(c.before); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestCommitted(t *testing.T) {
	t.Parallel()
	done := paxosState{promised: "b1", commit: "b1"}
	for name, c := range map[string]struct {
		s    states
		want bool
	}{
		"everywhere":       {states{victim: done, witness: done, third: done}, true},
		"not at n3":        {states{victim: done, witness: done, third: {promised: "b1", accepted: "b1"}}, false},
		"an older at n1":   {states{victim: {commit: "b0"}, witness: done, third: done}, false},
		"nowhere":          {states{victim: {}, witness: {}, third: {}}, false},
		"one under way":    {states{victim: done, witness: done, third: {commit: "b1", accepted: "b2"}}, false},
		"nothing is known": {states{}, false},
	} {
		if got := c.s.committed(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
