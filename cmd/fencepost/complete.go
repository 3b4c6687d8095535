package main

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fencepost/bench/locks"
	"fencepost/checker"
	"fencepost/harness/env/cluster"
	"fencepost/harness/env/cluster/servers"
	"fencepost/harness/record/rundir"
	"fencepost/harness/scenario"
	"fencepost/harness/target/sinks"
	"fencepost/harness/target/system"
	"fencepost/reports/evidence"
)

// words are what a shell may complete to, each with its description after a tab.
type words func(typed string) []cobra.Completion

// completedFlags are the flags whose values are known, of whatever command has them.
var completedFlags = map[string]words{
	"system":     systemWords,
	"cluster":    oneOf("auto", "local", "docker", "up", "external"),
	"contention": severalOf(oneOf(scenario.Low, scenario.Medium, scenario.High)),
	"store":      oneOf(append([]string{servers.Cassandra}, servers.Names()...)...),
	"cassandra":  oneOf(cluster.Releases()...),
	"paxos":      oneOf(cluster.PaxosVariants()...),
	"set":        setWords,
	"scenarios":  severalOf(scenarioWords),
	"mutant":     severalOf(oneOf(variantNames(system.Directed())...)),
	"sink":       oneOf(sinks.Names()...),
	"workload":   workloadWords,
	"subject":    oneOf(subjectNames()...),
}

// completedOf are flags whose values are others for one command: by its name and theirs.
var completedOf = map[string]words{"bench system": oneOf(locks.Systems()...)}

// completedArgs are the commands whose argument is known: by name.
var completedArgs = map[string]words{
	"chaos":   func(typed string) []cobra.Completion { return append(severalOf(scenarioWords)(typed), "all") },
	"check":   runWords,
	"explain": runWords,
	"recheck": func(typed string) []cobra.Completion { return append(setWords(typed), runWords(typed)...) },
	"replay":  runWords,
	"report":  runWords,
}

// complete tells the shells of root's commands what can be typed. Where nothing of it
// fits they complete file names: scenarios and runs may be anywhere.
func complete(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		if w, ok := completedArgs[cmd.Name()]; ok {
			cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
				if len(args) > 0 {
					return nil, cobra.ShellCompDirectiveDefault
				}
				return fitting(w, typed), cobra.ShellCompDirectiveDefault
			}
		}
		completeFlags(cmd)
	}
}

// completeFlags does it for the flags of a command and of those that it holds.
func completeFlags(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		completeFlags(sub)
	}
	for name, w := range completedFlags {
		if cmd.Flags().Lookup(name) == nil {
			continue
		}
		if of, ok := completedOf[cmd.Name()+" "+name]; ok {
			w = of
		}
		err := cmd.RegisterFlagCompletionFunc(name, func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return fitting(w, typed), cobra.ShellCompDirectiveNoFileComp
		})
		if err != nil {
			panic(err) // the flag is there, and once
		}
	}
}

// fitting are the words that begin with what is typed.
func fitting(w words, typed string) []cobra.Completion {
	return slices.DeleteFunc(slices.Clone(w(typed)), func(c cobra.Completion) bool { return !strings.HasPrefix(c, typed) })
}

func oneOf(list ...string) words {
	return func(string) []cobra.Completion { return list }
}

// severalOf completes the last word of a list with commas between, and none twice.
func severalOf(w words) words {
	return func(typed string) (out []cobra.Completion) {
		i := strings.LastIndex(typed, ",") + 1
		before := strings.Split(typed[:i], ",")
		for _, c := range w(typed[i:]) {
			if name, _, _ := strings.Cut(c, "\t"); !slices.Contains(before, name) {
				out = append(out, typed[:i]+c)
			}
		}
		return out
	}
}

func scenarioWords(string) (out []cobra.Completion) {
	for _, name := range scenario.Names() {
		about := ""
		if s, err := scenario.Load(name); err == nil {
			about = s.About
		}
		out = append(out, cobra.CompletionWithDesc(name, about))
	}
	return out
}

func workloadWords(string) []cobra.Completion {
	out := []cobra.Completion{cobra.CompletionWithDesc(scenario.Plain, "the parameters in the scenario's file")}
	all, _ := scenario.Sets() // a test reads them
	for _, s := range all {
		out = append(out, cobra.CompletionWithDesc(s.Name, s.About))
	}
	return out
}

func systemWords(string) (out []cobra.Completion) {
	for _, s := range slices.Concat(system.Designs(), system.Broken()) {
		out = append(out, cobra.CompletionWithDesc(s.Name, s.About))
	}
	return out
}

func setWords(string) (out []cobra.Completion) {
	for _, s := range evidence.Sets {
		out = append(out, cobra.CompletionWithDesc(s.Name, s.About))
	}
	return out
}

// runWords are the runs in the directory that is typed, or in runs, the newest first.
func runWords(typed string) (out []cobra.Completion) {
	in := filepath.Dir(typed)
	if !strings.Contains(typed, "/") {
		in = "runs"
	}
	files, err := filepath.Glob(filepath.Join(in, "*", rundir.InfoFile))
	if err != nil {
		return nil
	}
	slices.Sort(files) // their names begin with the time
	slices.Reverse(files)
	for _, file := range files {
		dir := filepath.Dir(file)
		info, err := rundir.ReadInfo(dir)
		if err != nil {
			continue
		}
		var v checker.Result
		about := info.Scenario + " " + info.System
		if rundir.ReadJSON(filepath.Join(dir, rundir.VerdictFile), &v) == nil {
			about = string(v.Verdict) + " " + about
		}
		out = append(out, cobra.CompletionWithDesc(dir, about))
	}
	return out
}
