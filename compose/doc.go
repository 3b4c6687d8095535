// Package compose is the stack in containers: docs/stack.md tells about it. There is no
// code here but tests, which hold its files against their own validators, against the
// scheduler's settings and metrics, and against a real Prometheus.
package compose
