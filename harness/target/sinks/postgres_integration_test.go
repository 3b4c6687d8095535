//go:build integration

package sinks

func init() { tested = append(tested, Postgres) }
