package sinks

import "github.com/jackc/pgx/v5/pgxpool"

// Pool is the database, where a program has tables of its own beside the sink's.
func (c *inPostgres) Pool() *pgxpool.Pool { return c.pool }
