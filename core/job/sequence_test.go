package job_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fencepost/core/job"
)

func TestChild(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		shards := rapid.IntRange(1, 64).Draw(t, "shards")
		id := job.KeyedID("q", rapid.String().Draw(t, "key"), shards)
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		child := id.Child(a, shards)
		want, _ := id.Shard()
		if n, err := child.Shard(); err != nil || n != want || child.Check(shards) != nil || child == id {
			t.Errorf("child %q of %q", child, id)
		}
		if (a == b) != (child == id.Child(b, shards)) {
			t.Errorf("children %q and %q of %q are %q and %q", a, b, id, child, id.Child(b, shards))
		}
	})
	if c := job.ID("9-00000000000000000000000000000000").Child("x", 4); c.Check(4) != nil || !strings.HasPrefix(string(c), "9-") {
		t.Errorf("the child of an id of another queue is %q: %v", c, c.Check(4))
	}
	for _, malformed := range []job.ID{"", "9", "1024-00000000000000000000000000000000"} {
		if c := malformed.Child("x", 4); c != "" {
			t.Errorf("the child of %q is %q", malformed, c)
		}
	}
}

func TestSequence(t *testing.T) {
	t.Parallel()
	first := valid()
	first.Then = []job.Job{{Kind: "second", OnFailure: job.GoOn, MaxAttempts: 2}, {Kind: "third"}}
	for _, c := range []struct {
		state job.State
		after job.OnFailure
		want  bool
	}{
		{job.Completed, "", true}, {job.Completed, job.Stop, true}, {job.Completed, job.GoOn, true},
		{job.DLQ, "", false}, {job.DLQ, job.Stop, false}, {job.DLQ, job.GoOn, true},
		{job.Abandoned, job.Stop, false}, {job.Abandoned, job.GoOn, true},
		{job.Cancelled, job.GoOn, false}, {job.Pending, job.GoOn, false}, {job.Running, job.GoOn, false},
	} {
		j := first
		j.OnFailure = c.after
		if _, ok := j.Next(c.state, 4); ok != c.want {
			t.Errorf("%s, %q: followed %v, want %v", c.state, c.after, ok, c.want)
		}
	}
	second, _ := first.Next(job.Completed, 4)
	third, ok := second.Next(job.DLQ, 4)
	_, more := third.Next(job.Completed, 4)
	if !ok || more || second.Kind != "second" || second.MaxAttempts != 2 || third.Kind != "third" || third.MaxAttempts != job.DefaultMaxAttempts || third.Queue != "q" {
		t.Errorf("%+v, then %+v, then more: %v", second, third, more)
	}
	if second.After != first.ID || third.After != second.ID || third.ID == second.ID || second.Key != "" || !second.Due.IsZero() {
		t.Errorf("%+v, then %+v", second, third)
	}
	for _, j := range []job.Job{first, second, third} {
		if err := j.Check(4); err != nil {
			t.Errorf("%s: %v", j.Kind, err)
		}
	}
	forged := third
	forged.After = first.ID
	var invalid *job.InvalidError
	if err := forged.Check(4); !errors.As(err, &invalid) || invalid.Field != "id" {
		t.Errorf("a job with the id of another's follower: %v", err)
	}
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		template job.Job
		field    string
	}{
		"good":         {job.Job{Kind: "a", Then: []job.Job{{Kind: "b"}}}, ""},
		"no kind":      {job.Job{}, "kind"},
		"with id":      {job.Job{Kind: "a", ID: job.UniqueID([16]byte{}, 4)}, "template"},
		"with queue":   {job.Job{Kind: "a", Queue: "q"}, "template"},
		"with key":     {job.Job{Kind: "a", Key: "k"}, "template"},
		"with due":     {job.Job{Kind: "a", Due: time.UnixMilli(1)}, "template"},
		"with request": {job.Job{Kind: "a", Request: []byte{1}}, "template"},
		"occurrence":   {job.Job{Kind: "a", Occurrence: job.Occurrence{Nominal: 1}}, "template"},
		"after":        {job.Job{Kind: "a", After: "x"}, "template"},
		"bad follower": {job.Job{Kind: "a", Then: []job.Job{{Kind: "b"}, {}}}, "then[1].kind"},
		"bad choice":   {job.Job{Kind: "a", OnFailure: "retry"}, "on_failure"},
		"nested":       {job.Job{Kind: "a", Then: []job.Job{{Kind: "b", Then: []job.Job{{Kind: "c"}}}}}, "then[0].then"},
		"too many":     {job.Job{Kind: "a", Then: make([]job.Job, job.MaxThen+1)}, "then"},
	} {
		err := c.template.CheckTemplate("q", 4)
		var invalid *job.InvalidError
		if c.field == "" && err != nil || c.field != "" && (!errors.As(err, &invalid) || invalid.Field != c.field) {
			t.Errorf("%s: %v, want field %q", name, err, c.field)
		}
		j := c.template
		j.ID, j.Queue, j.Key, j.Request, j.Due, j.Occurrence, j.After = job.UniqueID([16]byte{}, 4), "q", "", nil, time.Time{}, job.Occurrence{}, ""
		err = j.WithDefaults().Check(4)
		if strings.HasPrefix(c.field, "then") != (err != nil) && c.field != "kind" && c.field != "on_failure" {
			t.Errorf("%s, as a job: %v", name, err)
		}
	}
}

func TestOccurrence(t *testing.T) {
	t.Parallel()
	o := job.Occurrence{Schedule: "nightly", Nominal: 1774746000000}
	manual := job.Occurrence{Schedule: "nightly", Nominal: 1774746000250, Trigger: "t1"}
	if got := o.Key() + " " + manual.Key(); got != "nightly@2026-03-29T01:00:00Z nightly@2026-03-29T01:00:00.25Z/t1" {
		t.Error(got)
	}
	later := manual
	later.Nominal++
	if o.ID("q", 8) == manual.ID("q", 8) || manual.ID("q", 8) != later.ID("q", 8) {
		t.Error("a trigger is known by its name, another occurrence by its time")
	}
	seen := map[job.ID]job.Occurrence{}
	shard, _ := job.ScheduleID("q", "nightly", 8).Shard()
	for n := range int64(1000) {
		for _, p := range []job.Occurrence{{Schedule: "nightly", Nominal: n}, {Schedule: "nightl", Nominal: n}} {
			id := p.ID("q", 8)
			if s, _ := id.Shard(); p.Schedule == "nightly" && s != shard || seen[id] != (job.Occurrence{}) {
				t.Fatalf("%s of %v and %v", id, p, seen[id])
			}
			seen[id] = p
		}
	}
	j := o.Job(job.Job{Kind: "mail", Then: []job.Job{{Kind: "tell"}}}, "q", 8)
	next, _ := j.Next(job.Completed, 8)
	if j.Check(8) != nil || next.Check(8) != nil || next.Occurrence != o || next.Key != j.Key || !j.Due.IsZero() {
		t.Errorf("%+v (%v), then %+v (%v)", j, j.Check(8), next, next.Check(8))
	}
	body, _ := j.Encode()
	if back, err := job.Decode(body); err != nil || !reflect.DeepEqual(back, j) {
		t.Errorf("%s became %+v, %v", body, back, err)
	}
	j.Occurrence.Nominal++
	if j.Check(8) == nil {
		t.Error("a job with the id of another occurrence")
	}
}
