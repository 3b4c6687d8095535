package sinks

import (
	"context"

	cassandrasink "fencepost/core/sink/cassandra"
	"fencepost/core/store/cassandra"
	"fencepost/harness/target/system/unfenced"
)

// OnNodes is the sink that is on the run's nodes.
type OnNodes struct {
	*cassandrasink.Sink
	unfenced.Writer
	DB *cassandra.DB
}

func openCassandra(ctx context.Context, at Place) (Client, error) {
	db, err := at.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	return &OnNodes{Sink: cassandrasink.New(db, cassandrasink.Options{RequestTimeout: at.Timeout}), Writer: unfenced.Rows(db), DB: db}, nil
}

// Close implements Client.
func (c *OnNodes) Close() { c.DB.Close() }
