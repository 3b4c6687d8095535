package job

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// ID names a job: "<shard>-<32 hex digits>".
type ID string

// KeyedID is the id of the job with an idempotency key in a queue of so many
// shards: the same for everybody who enqueues it.
func KeyedID(queue, key string, shards int) ID {
	h := sha256.New()
	// The length keeps ("a", "bc") and ("ab", "c") apart.
	fmt.Fprintf(h, "%d %s %s", len(queue), queue, key)
	return makeID(h.Sum(nil)[:16], shards)
}

// RandomID makes an id of 16 random bytes.
func RandomID(random [16]byte, shards int) ID { return makeID(random[:], shards) }

// Child is the id of what a name stands for beside the job: the same for everybody,
// and in the same shard. It is "" if id is not one of a queue of so many shards.
func (id ID) Child(name string, shards int) ID {
	shard, err := id.Shard()
	if err != nil || id.Check(shards) != nil {
		return ""
	}
	for n := 0; ; n++ { // as many tries as there are shards, on average
		h := sha256.New()
		fmt.Fprintf(h, "child %s %d %s", id, n, name)
		child := makeID(h.Sum(nil)[:16], shards)
		if s, err := child.Shard(); err == nil && s == shard {
			return child
		}
	}
}

func makeID(raw []byte, shards int) ID {
	digits := hex.EncodeToString(raw)
	return ID(strconv.Itoa(shardOf(digits, shards)) + "-" + digits)
}

func shardOf(digits string, shards int) int {
	if shards < 1 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(digits))
	return int(h.Sum64() % uint64(shards))
}

// Shard returns the shard that the id names, without checking that it belongs there.
func (id ID) Shard() (int, error) {
	left, digits, ok := strings.Cut(string(id), "-")
	n, err := strconv.Atoi(left)
	if !ok || err != nil || n < 0 || strconv.Itoa(n) != left || !isDigits(digits) {
		return 0, &InvalidError{Field: "id", Reason: fmt.Sprintf("%q is not <shard>-<32 hex digits>", string(id))}
	}
	return n, nil
}

// Check reports an id that is malformed or names another shard than the one that
// it belongs to in a queue of so many shards.
func (id ID) Check(shards int) error {
	n, err := id.Shard()
	if err != nil {
		return err
	}
	_, digits, _ := strings.Cut(string(id), "-")
	if want := shardOf(digits, shards); n != want {
		return &InvalidError{Field: "id", Reason: fmt.Sprintf("%q names shard %d and belongs to shard %d of %d", string(id), n, want, shards)}
	}
	return nil
}

func isDigits(s string) bool {
	if len(s) != 32 {
		return false
	}
	for _, c := range s {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// RunID names an attempt and is its fencing token: fence<<32 | seq. In JSON it is
// a decimal string.
type RunID int64

// The greatest fence and sequence number that fit into a RunID.
const (
	MaxFence = 1<<31 - 1
	MaxSeq   = 1<<32 - 1
)

// NewRunID returns the id of the seq-th claim under a fence. Both must be in range.
func NewRunID(fence int64, seq uint32) RunID { return RunID(fence<<32 | int64(seq)) }

// FirstRunID is below every run id of the fence and above all of earlier fences.
func FirstRunID(fence int64) RunID { return RunID(fence << 32) }

// Fence is the fence of the ownership that claimed the run.
func (r RunID) Fence() int64 { return int64(r) >> 32 }

// Seq is the number of the claim within its ownership.
func (r RunID) Seq() uint32 { return uint32(r) }

func (r RunID) String() string { return strconv.FormatInt(int64(r), 10) }

// MarshalText implements encoding.TextMarshaler.
func (r RunID) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *RunID) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != string(text) {
		return &InvalidError{Field: "run_id", Reason: fmt.Sprintf("%q is not a decimal number", text)}
	}
	*r = RunID(n)
	return nil
}
