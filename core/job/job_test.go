package job_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"fencepost/core/job"
)

func valid() job.Job {
	return job.Job{ID: job.KeyedID("q", "k", 4), Queue: "q", Kind: "mail", Key: "k",
		Payload: []byte{0, 1}, Due: time.UnixMilli(1234567).UTC(), Priority: 3}.WithDefaults()
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*job.Job)
		field  string
	}{
		"valid":               {func(*job.Job) {}, ""},
		"no key, random id":   {func(j *job.Job) { j.Key, j.ID = "", job.UniqueID([16]byte{1}, 4) }, ""},
		"exponential":         {func(j *job.Job) { j.Retry = job.Exponential(time.Second, 3, time.Hour) }, ""},
		"no queue":            {func(j *job.Job) { j.Queue = "" }, "queue"},
		"no kind":             {func(j *job.Job) { j.Kind = "" }, "kind"},
		"kind not in UTF-8":   {func(j *job.Job) { j.Kind = "mail\xff" }, "kind"},
		"key not in UTF-8":    {func(j *job.Job) { j.Key, j.ID = "k\xff", job.KeyedID("q", "k\xff", 4) }, "key"},
		"key in any UTF-8":    {func(j *job.Job) { j.Key, j.ID = "o\u0308\x00\ufffd", job.KeyedID("q", "o\u0308\x00\ufffd", 4) }, ""},
		"no id":               {func(j *job.Job) { j.ID = "" }, "id"},
		"id of another key":   {func(j *job.Job) { j.ID = job.KeyedID("q", "other", 4) }, "id"},
		"id of other shards":  {func(j *job.Job) { j.ID = "3" + j.ID[1:] }, "id"},
		"id with sign":        {func(j *job.Job) { j.ID = "+" + j.ID }, "id"},
		"id in capitals":      {func(j *job.Job) { j.ID = "0-ABCDEF00000000000000000000000000" }, "id"},
		"negative attempts":   {func(j *job.Job) { j.MaxAttempts = -1 }, "max_attempts"},
		"too many attempts":   {func(j *job.Job) { j.MaxAttempts = 1001 }, "max_attempts"},
		"negative duration":   {func(j *job.Job) { j.MaxDuration = -1 }, "max_duration"},
		"unknown policy":      {func(j *job.Job) { j.Rescue = "twice" }, "rescue"},
		"delay of a century":  {func(j *job.Job) { j.Retry.Delays = []time.Duration{time.Hour, 1 << 62} }, "retry"},
		"limit of a century":  {func(j *job.Job) { j.Retry = job.Exponential(1, 2, 1<<62) }, "retry"},
		"negative delay":      {func(j *job.Job) { j.Retry.Delays = []time.Duration{-1} }, "retry"},
		"factor below one":    {func(j *job.Job) { j.Retry = job.Exponential(1, 0.5, 1) }, "retry"},
		"factor not a number": {func(j *job.Job) { j.Retry = job.Exponential(1, math.NaN(), 1) }, "retry"},
		"jitter above one":    {func(j *job.Job) { j.Retry.Jitter = 1.5 }, "retry"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := valid()
			c.change(&j)
			err := j.Check(4)
			var invalid *job.InvalidError
			if c.field == "" && err != nil || c.field != "" && (!errors.As(err, &invalid) || invalid.Field != c.field) {
				t.Errorf("Check: %v, want field %q", err, c.field)
			}
		})
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	if job.KeyedID("a", "bc", 4) == job.KeyedID("ab", "c", 4) {
		t.Error("queue and key run into each other")
	}
	rapid.Check(t, func(t *rapid.T) {
		shards := rapid.IntRange(1, 64).Draw(t, "shards")
		key := rapid.String().Draw(t, "key")
		id := job.KeyedID("q", key, shards)
		if n, err := id.Shard(); err != nil || n < 0 || n >= shards || id.Check(shards) != nil || id != job.KeyedID("q", key, shards) {
			t.Errorf("%q: shard %d, %v, %v", id, n, err, id.Check(shards))
		}
	})
}

// TestMoreShards: whatever the number of shards is raised to, an id of before is one of the queue's, with its
// followers beside it; an id is refused in every other shard; and ids spread over all shards.
func TestMoreShards(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.IntRange(1, 12).Draw(t, "first")
		now := rapid.IntRange(1, 40).Draw(t, "now")
		raw := [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "random"))
		id := job.SpreadID(raw, first, now)
		n, err := id.Shard()
		if err != nil || n >= max(first, now) || id.Check(first) != nil || id != job.SpreadID(raw, first, now) {
			t.Fatalf("%s of %d shards, %d at first: %v, %v", id, now, first, err, id.Check(first))
		}
		if now <= first && id != job.UniqueID(raw, first) {
			t.Errorf("%s is not what it was before queues could be raised", id)
		}
		child := id.Child("x", first)
		if c, err := child.Shard(); err != nil || c != n || child.Check(first) != nil {
			t.Errorf("%s has the child %s: %v", id, child, child.Check(first))
		}
		_, digits, _ := strings.Cut(string(id), "-")
		for other := range first {
			if other != n && n < first && job.ID(fmt.Sprint(other, "-", digits)).Check(first) == nil {
				t.Errorf("%s is accepted in shard %d too", id, other)
			}
		}
	})
	const first, now, ids = 3, 10, 10_000
	var count [now]int
	for n := range ids {
		shard, _ := job.SpreadID([16]byte{byte(n), byte(n >> 8)}, first, now).Shard()
		count[shard]++
	}
	for shard, n := range count {
		if n < ids/now*8/10 || n > ids/now*12/10 {
			t.Errorf("%d of %d ids are in shard %d of %d", n, ids, shard, now)
		}
	}
}

// TestIDsSort: ids that are made later sort later in their shard, whatever the queue was raised to.
func TestIDsSort(t *testing.T) {
	t.Parallel()
	for _, now := range []int{1, 3, 9} {
		last := map[int]job.ID{}
		for range 1000 {
			id := job.SpreadID(uuid.Must(uuid.NewV7()), 3, now)
			shard, err := id.Shard()
			if err != nil || id <= last[shard] {
				t.Fatalf("%d shards: %s comes after %s: %v", now, id, last[shard], err)
			}
			last[shard] = id
		}
	}
}

func TestRunID(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		fence := rapid.Int64Range(0, job.MaxFence).Draw(t, "fence")
		seq := rapid.Uint32().Draw(t, "seq")
		r := job.NewRunID(fence, seq)
		if r < 0 || r.Fence() != fence || r.Seq() != seq || r < job.FirstRunID(fence) || fence < job.MaxFence && r >= job.FirstRunID(fence+1) {
			t.Errorf("(%d, %d) = %d", fence, seq, r)
		}
		text, err := json.Marshal(r)
		var back job.RunID
		if err != nil || text[0] != '"' || json.Unmarshal(text, &back) != nil || back != r {
			t.Errorf("%d as JSON is %s, back %d", r, text, back)
		}
	})
	for _, bad := range []string{`7`, `"-1"`, `"x"`, `"+7"`, `"07"`, `"9223372036854775808"`} {
		var r job.RunID
		if err := json.Unmarshal([]byte(bad), &r); err == nil {
			t.Errorf("%s was read as %d", bad, r)
		}
	}
}

func TestEncode(t *testing.T) {
	t.Parallel()
	j := valid()
	body, err := j.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := job.Decode(body)
	if err != nil || !reflect.DeepEqual(back, j) {
		t.Errorf("%+v became %+v, %v", j, back, err)
	}
	if _, err := job.Decode([]byte("{")); err == nil {
		t.Error("half a job was read")
	}
}

func TestDelay(t *testing.T) {
	t.Parallel()
	var zero job.RetryPolicy
	for i, want := range []time.Duration{5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 30 * time.Minute} {
		if got := zero.Delay(i+1, 0.5); got != want {
			t.Errorf("after attempt %d: %s, want %s", i+1, got, want)
		}
	}
	if lo, hi := zero.Delay(1, 0), zero.Delay(1, 0.999999); lo != 4500*time.Millisecond || hi <= 5*time.Second || hi > 5500*time.Millisecond {
		t.Errorf("jitter from %s to %s", lo, hi)
	}
	e := job.RetryPolicy{Base: time.Second, Max: time.Minute}
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		if got := e.Delay(i+1, 0.3); got != want*time.Second {
			t.Errorf("exponential after attempt %d: %s, want %s", i+1, got, want*time.Second)
		}
	}
	if got := e.Delay(100000, 0); got != time.Minute {
		t.Errorf("after very many attempts: %s", got)
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	all := []job.State{job.Pending, job.Running, job.Completed, job.DLQ, job.Cancelled, job.Abandoned}
	for _, s := range all {
		for _, next := range all {
			want := s == job.Pending && (next == job.Running || next == job.Cancelled || next == job.DLQ) || s == job.Running && next != job.Running || s == job.DLQ && next == job.Pending
			if got := s.Next(next); got != want {
				t.Errorf("from %s to %s: %v, want %v", s, next, got, want)
			}
		}
		if s.Ended() == (s == job.Pending || s == job.Running) {
			t.Errorf("%s: Ended %v", s, s.Ended())
		}
	}
	if err := job.Cancel(io.EOF); !job.IsCancel(err) || !errors.Is(err, io.EOF) || job.IsCancel(io.EOF) || !job.IsCancel(job.Cancel(nil)) {
		t.Error("Cancel")
	}
	if err := job.Permanent(io.EOF); !job.IsPermanent(err) || !errors.Is(err, io.EOF) || job.IsPermanent(io.EOF) || !job.IsPermanent(job.Permanent(nil)) || job.IsCancel(err) {
		t.Error("Permanent")
	}
}
