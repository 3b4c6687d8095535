package choice

import "testing"

func TestUnknown(t *testing.T) {
	t.Parallel()
	names := []string{"kill-node", "kill-nodes", "kill-worker", "partition", "P11"}
	for name, want := range map[string]string{
		"partitoin":    `unknown scenario "partitoin" (did you mean "partition"?); there are: kill-node, kill-nodes, kill-worker, partition, P11`,
		"KILL-WORKERS": `unknown scenario "KILL-WORKERS" (did you mean "kill-worker"?); there are: kill-node, kill-nodes, kill-worker, partition, P11`,
		"kill-nodse":   `unknown scenario "kill-nodse" (did you mean "kill-node"?); there are: kill-node, kill-nodes, kill-worker, partition, P11`,
		"meteor":       `unknown scenario "meteor"; there are: kill-node, kill-nodes, kill-worker, partition, P11`,
		"":             `unknown scenario ""; there are: kill-node, kill-nodes, kill-worker, partition, P11`,
	} {
		if got := Unknown("scenario", name, names...).Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
