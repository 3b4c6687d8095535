// Package osproc is what the harness needs of processes that it starts itself: signals to
// a whole group, states, the last words of a log, and services that a run has beside its
// workers and nodes, such as its sink.
package osproc
