package main

import (
	"testing"

	"fencepost/checker"
	"fencepost/harness/fault"
)

// The checker imports no faults, so its words for what they do to a worker are held here
// against the faults that there are.
func TestAnswersHaveWordsForFaultsOfWorkers(t *testing.T) {
	t.Parallel()
	for _, k := range fault.Kinds() {
		if k.On == fault.Worker && !checker.DescribesFault(k.Name) {
			t.Errorf("an answer has no words for what %s does to a worker", k.Name)
		}
	}
}
