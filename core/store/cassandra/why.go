package cassandra

import (
	"context"
	"errors"

	"github.com/gocql/gocql"
)

// Why says in some words why a request was not answered, or refused; it tells of no
// address and no statement, so that whoever may probe may read it. "" if there is
// nothing to say but the error itself.
func Why(err error) string {
	switch Refused(err) {
	case Credentials:
		return "it refuses the login"
	case Unauthorized:
		return "it refuses the request, as the role lacks a permission"
	case NoQuorum:
		return "too few replicas are up, or answered its coordinator in time"
	case Exists, Invalid:
		return "it refuses the request"
	}
	switch {
	case errors.Is(err, gocql.ErrNoConnections):
		return "there is no connection to any of its nodes"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, gocql.ErrTimeoutNoResponse):
		return "no node answered in time"
	}
	return ""
}
