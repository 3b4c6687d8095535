package enginetest

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"fencepost/core/job"
)

// oddKeys are hard to tell apart, for who takes care of less than all bytes; of "" there may be
// many. One is what a schedule's own id is made from.
var oddKeys = []string{"", "job", "JOB", "", " job", "job ", "job\t", "j\u00f6b", "jo\u0308b", "job\x00", "schedule s0",
	strings.Repeat("k", 999) + "k", strings.Repeat("k", 999) + "K", "job/../job", "<job>&\"job\"", "\u200bjob", "\ufffd", "q.2 job"}

// identity is the id of the job of that number: what has no key gets an id of its own.
func (w *World) identity(n int, queue, key string) job.ID {
	if key != "" {
		return job.KeyedID(queue, key, w.cfg.shards)
	}
	return job.SpreadID([16]byte(binary.BigEndian.AppendUint64(make([]byte, 8), uint64(n))), w.cfg.shards, w.cfg.raised)
}

// folded takes jobs of one queue for one whose keys look alike; "" is none.
func folded(look func(key string) string) func(w *World, j *job.Job) {
	return func(w *World, j *job.Job) {
		if look(j.Key) == "" {
			return
		}
		first := w.jobs[slices.IndexFunc(w.jobs, func(o *simJob) bool {
			return o.job.Queue == j.Queue && look(o.job.Key) == look(j.Key)
		})]
		j.ID, j.Key = first.job.ID, first.job.Key
	}
}

// keyMutants do not tell all keys apart.
var keyMutants = []Mutant{
	fold("upper and lower case are the same", strings.ToLower),
	fold("spaces around it are nothing", strings.TrimSpace),
	fold("only its first 255 bytes count", func(key string) string { return key[:min(len(key), 255)] }),
	fold("accents are composed", func(key string) string { return strings.ReplaceAll(key, "o\u0308", "\u00f6") }),
	fold("none is one too", func(key string) string { return cmp.Or(key, "none") }),
}

func fold(how string, look func(string) string) Mutant {
	return Mutant{Name: "keys: " + how, Rules: []string{"acked-lost", "request"}, Under: "keys",
		World: func(c *Config) { c.arrives = folded(look) }}
}
