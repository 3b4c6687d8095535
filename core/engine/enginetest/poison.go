package enginetest

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"

	"fencepost/core/store"
)

// Poisons: jobs of which the store never takes some row.
const (
	poisonBody = "poison in every row"
	poisonRun  = "poison when it runs"
	poisonNote = "poison in its error"
)

var errPoison = errors.New(poisonNote)

func encoded(s string) []byte { return []byte(base64.StdEncoding.EncodeToString([]byte(s))) }

// poisonous marks the batches that the store never takes.
func poisonous(b store.Batch) bool {
	for _, op := range b.Ops {
		switch {
		case bytes.Contains(op.Row.Body, encoded(poisonBody)),
			op.Row.Kind == store.KindRunning && bytes.Contains(op.Row.Body, encoded(poisonRun)),
			op.Row.Kind == store.KindJob && strings.HasSuffix(op.Row.Note, poisonNote):
			return true
		}
	}
	return false
}
