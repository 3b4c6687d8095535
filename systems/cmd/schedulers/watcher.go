package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"fencepost/systems/clients"
	"fencepost/systems/drive"
)

// watcher is a queue of JetStream whose messages are hidden from others for AckWait once they are delivered,
// and a table of what is done: a worker looks there, does the job, writes it down and acknowledges. Between
// the look and the write another worker may look too.
type watcher struct {
	at   drive.Place
	conn *nats.Conn
	js   jetstream.JetStream
	done jetstream.KeyValue
	jobs jetstream.Consumer
	run  drive.Run

	stop    context.CancelFunc
	workers sync.WaitGroup
}

// The jobs of a run, and their consumer; the table of what is done is the bucket with the run's name.
func (w *watcher) stream() string { return "JOBS_" + w.at.Name }
func (w *watcher) subject(lock string) string {
	return w.stream() + "." + strings.ReplaceAll(lock, "/", ".")
}
func (w *watcher) key(j drive.Job) string { return fmt.Sprintf("%s.%d", j.Lock, j.N) }

const watcherGroup = "workers"

func setUpWatcher(ctx context.Context, at drive.Place) error {
	w := &watcher{at: at}
	conn, js, err := clients.JetStream(at)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = clients.Settled(ctx, func(ctx context.Context) (jetstream.KeyValue, error) {
		return js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: at.Name, History: 1, Replicas: clients.NATSReplicas, Storage: jetstream.FileStorage})
	})
	if err != nil {
		return err
	}
	_, err = clients.Settled(ctx, func(ctx context.Context) (jetstream.Stream, error) {
		return js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name: w.stream(), Subjects: []string{w.stream() + ".>"}, Replicas: clients.NATSReplicas, Storage: jetstream.FileStorage,
			Retention: jetstream.WorkQueuePolicy, Duplicates: time.Hour,
		})
	})
	if err != nil {
		return err
	}
	_, err = clients.Settled(ctx, func(ctx context.Context) (jetstream.Consumer, error) {
		return js.CreateOrUpdateConsumer(ctx, w.stream(), jetstream.ConsumerConfig{
			Durable: watcherGroup, AckPolicy: jetstream.AckExplicitPolicy, AckWait: at.TTL, MaxDeliver: -1, MaxAckPending: -1,
		})
	})
	return err
}

func openWatcher(ctx context.Context, at drive.Place, slots int, run drive.Run) (drive.Queue, error) {
	w := &watcher{at: at, run: run}
	var err error
	if w.conn, w.js, err = clients.JetStream(at); err != nil {
		return nil, err
	}
	w.done, err = clients.Settled(ctx, func(ctx context.Context) (jetstream.KeyValue, error) { return w.js.KeyValue(ctx, at.Name) })
	if err == nil {
		w.jobs, err = clients.Settled(ctx, func(ctx context.Context) (jetstream.Consumer, error) {
			return w.js.Consumer(ctx, w.stream(), watcherGroup)
		})
	}
	if err != nil {
		w.conn.Close()
		return nil, err
	}
	working, stop := context.WithCancel(context.Background())
	w.stop = stop
	for range slots {
		w.workers.Go(func() { w.work(working) })
	}
	return w, nil
}

// work takes one message after the other.
func (w *watcher) work(ctx context.Context) {
	for ctx.Err() == nil {
		batch, err := w.jobs.Fetch(1, jetstream.FetchMaxWait(time.Second))
		if err != nil {
			fmt.Fprintln(os.Stderr, "fetch:", err)
			time.Sleep(50 * time.Millisecond)
			continue
		}
		for m := range batch.Messages() {
			if err := w.handle(m); err != nil {
				fmt.Fprintln(os.Stderr, m.Subject(), err)
			}
		}
	}
}

// handle looks, does, writes down and acknowledges. What fails is delivered again after AckWait.
func (w *watcher) handle(m jetstream.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	var j drive.Job
	if _, err := fmt.Sscanf(string(m.Data()), "%s %d", &j.Lock, &j.N); err != nil {
		return errors.Join(err, m.Term())
	}
	j.Token = int64(meta.Sequence.Stream)*maxAttempts + int64(meta.NumDelivered)
	ctx, cancel := context.WithTimeout(context.Background(), w.at.TTL)
	defer cancel()
	switch _, err := w.done.Get(ctx, w.key(j)); {
	case err == nil:
		return m.Ack()
	case !errors.Is(err, jetstream.ErrKeyNotFound):
		return err
	}
	if err := w.run(ctx, j); err != nil {
		return err
	}
	if _, err := w.done.Put(ctx, w.key(j), nil); err != nil {
		return err
	}
	return m.Ack()
}

// Put: a message with an id that the stream has seen within the hour is dropped.
func (w *watcher) Put(ctx context.Context, j drive.Job) error {
	_, err := w.js.Publish(ctx, w.subject(j.Lock), fmt.Appendf(nil, "%s %d", j.Lock, j.N), jetstream.WithMsgID(j.ID()))
	return err
}

func (w *watcher) Close(context.Context) error {
	w.stop()
	w.workers.Wait()
	w.conn.Close()
	return nil
}
