// Package explain says why a run is not PASS, as far as its history can tell.
//
// [Verdict] ranks the suspects that the properties' rules have found: the most specific evidence
// first. A mechanism with less stays only if it accounts for a property that no better one does.
// Each [Cause] shows one case as a chain of events, with the faults that were in force, and names
// what this history cannot tell from it. [Explanation.AddLogs] adds what the processes' logs say
// around the mistake; [Print] writes all of it for people.
//
// [Answer] is the verdict in words, made of the best causes; [AnswerOf] makes it for older results too.
//
// Neither the name of the system under test nor what a scenario was meant to show plays a part.
package explain
