// Package plan makes a plan of a scenario: the Spec with every choice made. What is random is
// drawn from the seed, so that a plan repeats, also from the file that a run keeps of it (Read).
// It says what the run must contain (Expectation), and which systems can run it (Suits). It runs
// nothing; package run does.
package plan
