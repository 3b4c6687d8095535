// Package checkers measures the checker: how long it takes to judge a history, and how that
// grows with the history.
//
// # The arms
//
// K, one a size: "fencepost check" on the history of a run of so many operations, in a process
// of its own with the default limits. In a round each arm does one check. Reading counts, as it
// does for who waits for a verdict. What a check takes is read from the kernel's account of its
// process and of the child that it starts.
//
// # The histories
//
// Each is of a whole run of locks with a fault, made by package simrun: the production core and
// the clients of real runs on the simulated store, in virtual time, recorded by the recorder of
// real runs. The seed decides how it goes, but for a few operations. It is made in the rehearsal, in a process of its own.
// Every check must end with PASS and find the same number of operations, or it is no sample; one
// that ends with FAIL breaks a promise.
package checkers
