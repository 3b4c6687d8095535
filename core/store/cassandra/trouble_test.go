package cassandra

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gocql/gocql"

	"fencepost/core/store"
)

func TestWhy(t *testing.T) {
	t.Parallel()
	for want, cause := range map[string]error{
		"too few replicas":    frame{gocql.ErrCodeUnavailable},
		"answered its":        frame{gocql.ErrCodeReadTimeout},
		"no connection":       fmt.Errorf("pool: %w", gocql.ErrNoConnections),
		"no node":             context.DeadlineExceeded,
		"permission":          frame{gocql.ErrCodeUnauthorized},
		"refuses the request": frame{gocql.ErrCodeInvalid},
		"login":               frame{gocql.ErrCodeCredentials},
	} {
		got := Why(&store.Error{Op: "look", Outcome: store.Unknown, Cause: cause})
		if !strings.Contains(got, want) {
			t.Errorf("%v: %q, want %q", cause, got, want)
		}
	}
	if got := Why(errors.New("SELECT secret FROM 10.0.0.1")); got != "" {
		t.Errorf("%q", got)
	}
}
