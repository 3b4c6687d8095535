package osproc

import (
	"cmp"
	"context"

	"fencepost/harness/record/history"
)

type whoKey struct{}

// As is a context for what is done to processes in the name of somebody, such as a fault
// by its id; see [By].
func As(ctx context.Context, who string) context.Context {
	return context.WithValue(ctx, whoKey{}, who)
}

// By is in whose name something is done to a process. Default: the runner's.
func By(ctx context.Context) string {
	who, _ := ctx.Value(whoKey{}).(string)
	return cmp.Or(who, history.Runner)
}
