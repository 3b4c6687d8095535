// Package owncheck says whether a program of a user's own keeps the contract for such programs
// (docs/own-system.md): from a short run in which it was tried out (own.Trial), by its history and
// its verdict.
//
// Each part of the contract is a check, a row of checks, and each check says something: that all
// is well and by how much that was seen, what is wrong and what to do about it, or why it could
// not be told.
package owncheck
