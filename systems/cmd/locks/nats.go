package main

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"fencepost/systems/clients"
	"fencepost/systems/drive"
)

// natsKV is a key of a bucket whose entries live for one lease: it is created if there is none,
// written again to renew it, and deleted, each if its revision is still the last. The revision
// that creates it is the token.
type natsKV struct {
	conn      *nats.Conn
	js        jetstream.JetStream
	bucket    jetstream.KeyValue
	config    jetstream.KeyValueConfig
	revisions map[string]uint64 // the last of each id
}

func connectNATS(at drive.Place) (*natsKV, error) {
	conn, js, err := clients.JetStream(at)
	if err != nil {
		return nil, err
	}
	n := &natsKV{conn: conn, js: js, revisions: map[string]uint64{}}
	n.config = jetstream.KeyValueConfig{Bucket: at.Name, TTL: at.TTL, History: 1, Replicas: clients.NATSReplicas, Storage: jetstream.FileStorage}
	return n, nil
}

func setUpNATS(ctx context.Context, at drive.Place) error {
	n, err := connectNATS(at)
	if err != nil {
		return err
	}
	_, err = clients.Settled(ctx, func(ctx context.Context) (jetstream.KeyValue, error) {
		return n.js.CreateOrUpdateKeyValue(ctx, n.config)
	})
	return errors.Join(err, n.Close())
}

func openNATS(ctx context.Context, at drive.Place) (drive.Locker, error) {
	n, err := connectNATS(at)
	if err != nil {
		return nil, err
	}
	if n.bucket, err = clients.Settled(ctx, func(ctx context.Context) (jetstream.KeyValue, error) { return n.js.KeyValue(ctx, at.Name) }); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func (n *natsKV) Acquire(ctx context.Context, name, id string, _ time.Duration) (int64, bool, error) {
	revision, err := n.bucket.Create(ctx, name, []byte(id))
	if errors.Is(err, jetstream.ErrKeyExists) || wrongRevision(err) {
		entry, err := n.entry(ctx, name)
		if err != nil || entry == nil || string(entry.Value()) != id {
			return 0, false, err
		}
		revision = entry.Revision() // an earlier copy took it
	} else if err != nil {
		return 0, false, err
	}
	n.revisions[id] = revision
	return int64(revision), true, nil
}

func (n *natsKV) Renew(ctx context.Context, name, id string, _ time.Duration) (bool, error) {
	revision, err := n.bucket.Update(ctx, name, []byte(id), n.revisions[id])
	if wrongRevision(err) {
		return false, nil
	}
	if err == nil {
		n.revisions[id] = revision
	}
	return err == nil, err
}

func (n *natsKV) Release(ctx context.Context, name, id string) (bool, error) {
	err := n.bucket.Delete(ctx, name, jetstream.LastRevision(n.revisions[id]))
	if wrongRevision(err) {
		return false, nil
	}
	if err == nil {
		delete(n.revisions, id)
	}
	return err == nil, err
}

// wrongConstant is what JSErrCodeStreamWrongLastSequence is since 2.12 where the answer does not
// name the sequence.
const wrongConstant = 10164

// wrongRevision: the key has been written since.
func wrongRevision(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == wrongConstant)
}

// entry is the last of a key, nil if it is deleted, expired or never was.
func (n *natsKV) entry(ctx context.Context, name string) (jetstream.KeyValueEntry, error) {
	entry, err := n.bucket.Get(ctx, name)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	return entry, err
}

func (n *natsKV) Holder(ctx context.Context, name string) (string, error) {
	entry, err := n.entry(ctx, name)
	if err != nil || entry == nil {
		return "", err
	}
	return string(entry.Value()), nil
}

// Seal first lets entries live for ever.
func (n *natsKV) Seal(ctx context.Context, name, id string) (bool, error) {
	if n.config.TTL != 0 {
		n.config.TTL = 0
		if _, err := n.js.UpdateKeyValue(ctx, n.config); err != nil {
			return false, err
		}
	}
	_, err := n.bucket.Create(ctx, name, []byte(id))
	if errors.Is(err, jetstream.ErrKeyExists) || wrongRevision(err) {
		return false, nil
	}
	return err == nil, err
}

func (n *natsKV) Close() error {
	n.conn.Close()
	return nil
}
