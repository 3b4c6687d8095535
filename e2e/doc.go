// Package e2e tests the tool as people use it: its command line against a real
// cluster that is kept up, good runs and known-broken ones, judged by exit code
// and verdict.json. Build tag e2e; scripts/test-real brings the cluster.
package e2e
