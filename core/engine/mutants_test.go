package engine_test

import (
	"bytes"
	"encoding/base64"

	"fencepost/core/store"
)

var poisonText = []byte(base64.StdEncoding.EncodeToString([]byte("poison")))

// poisonous marks batches with a row that holds poison: the store never takes them.
func poisonous(b store.Batch) bool {
	for _, op := range b.Ops {
		if bytes.Contains(op.Row.Body, poisonText) {
			return true
		}
	}
	return false
}
