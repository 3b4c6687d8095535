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
//
// A queue's number of shards may be raised, and the first one, with which it was created, stays
// known: what is said here of a queue of so many shards means that one. So keys, schedules and
// what follows a job have the same ids for ever. The digits belong to a shard if their hash,
// modulo the first number of shards, is that shard's number; to one that was added later, if it
// is modulo the number of shards up to that one.
type ID string

// MaxShards is how many shards a queue may be raised to. It bounds what an id costs: one in the n-th shard is
// found among n.
const MaxShards = 1024

// KeyedID is the id of the job with an idempotency key in a queue of so many
// shards: the same for everybody who enqueues it.
func KeyedID(queue, key string, shards int) ID {
	h := sha256.New()
	// The length keeps ("a", "bc") and ("ab", "c") apart.
	fmt.Fprintf(h, "%d %s %s", len(queue), queue, key)
	return makeID(h.Sum(nil)[:16], shards)
}

// UniqueID makes an id of a UUID. One that begins with the time (version 7, RFC 9562) makes ids that sort
// by when they were made: rows of new jobs are then side by side in their shard, and a node finds out that none
// of a batch exists by one look into each of its files, however large these are. With random ones it is a look for
// each job.
func UniqueID(unique [16]byte, shards int) ID { return makeID(unique[:], shards) }

// SpreadID is UniqueID over all shards of a queue that has now so many, in place of the first ones.
func SpreadID(unique [16]byte, shards, now int) ID {
	if now <= shards {
		return UniqueID(unique, shards)
	}
	const first = 8 // bytes that stay, for the order
	shard := shardOf(hex.EncodeToString(unique[:]), now)
	return idIn(shard, shards, unique[:first], func(n int) string { return fmt.Sprintf("spread %x %d", unique, n) })
}

// Child is the id of what a name stands for beside the job: the same for everybody,
// and in the same shard, whatever id that is. It is "" if id is malformed.
func (id ID) Child(name string, shards int) ID {
	shard, err := id.Shard()
	if err != nil || shard >= max(shards, MaxShards) {
		return ""
	}
	return idIn(shard, shards, nil, func(n int) string { return fmt.Sprintf("child %s %d %s", id, n, name) })
}

func makeID(raw []byte, shards int) ID {
	digits := hex.EncodeToString(raw)
	return ID(strconv.Itoa(shardOf(digits, shards)) + "-" + digits)
}

// idIn is an id in a shard that begins with some bytes, made from the first text of many that gives one: as
// many are tried as there are shards up to that one, on average.
func idIn(shard, shards int, first []byte, text func(n int) string) ID {
	for n := 0; ; n++ {
		h := sha256.Sum256([]byte(text(n)))
		raw := append(first[:len(first):len(first)], h[:]...)[:16]
		if digits := hex.EncodeToString(raw); belong(digits, shard, shards) {
			return ID(strconv.Itoa(shard) + "-" + digits)
		}
	}
}

// belong reports whether digits belong to a shard of a queue that had so many first.
func belong(digits string, shard, shards int) bool {
	return shardOf(digits, max(shards, shard+1)) == shard
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

// Check reports an id that is malformed or names another shard than one that
// it belongs to in a queue of so many shards, or in one that had so many first. It does not know
// how many there are now.
func (id ID) Check(shards int) error {
	n, err := id.Shard()
	if err != nil {
		return err
	}
	_, digits, _ := strings.Cut(string(id), "-")
	if n >= max(shards, MaxShards) || !belong(digits, n, shards) {
		return &InvalidError{Field: "id", Reason: fmt.Sprintf("%q names shard %d and belongs to shard %d of %d", string(id), n, shardOf(digits, shards), shards)}
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
