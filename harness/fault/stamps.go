package fault

import (
	"context"
	"sync"
	"time"
)

// stampsEvery is how often rows are read that show workers' wall clocks.
const stampsEvery = 250 * time.Millisecond

// stamps watches what workers write by their wall clocks. Rows of locks show only their
// current holder.
type stamps struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	seen map[Stamp]bool
	err  error         // of the last look
	news chan struct{} // closed and made again with each look
}

func watchStamps(env *Env) *stamps {
	ctx, cancel := context.WithCancel(context.Background())
	s := &stamps{cancel: cancel, done: make(chan struct{}), seen: map[Stamp]bool{}, news: make(chan struct{})}
	go s.run(ctx, env, time.Now())
	return s
}

func (s *stamps) run(ctx context.Context, env *Env, since time.Time) {
	defer close(s.done)
	tick := time.NewTicker(stampsEvery)
	defer tick.Stop()
	for {
		all, err := env.Stamps(ctx)
		s.mu.Lock()
		s.err = err
		for _, st := range all {
			if !st.Written.Before(since) {
				s.seen[st] = true
			}
		}
		close(s.news)
		s.news = make(chan struct{})
		s.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *stamps) stop() {
	s.cancel()
	<-s.done
}

// best is the stamp of a life that comes closest to an offset, and how many there are.
func (s *stamps) best(life string, want time.Duration) (best time.Duration, n int) {
	for st := range s.seen {
		if st.Life != life {
			continue
		}
		if w := st.wrong(); n == 0 || (w-want).Abs() < (best-want).Abs() {
			best = w
		}
		n++
	}
	return best, n
}

// await waits until a stamp of a life is as wrong as it is meant to be, or ctx is over.
func (s *stamps) await(ctx context.Context, life string, want, tolerance time.Duration) (best time.Duration, n int, err error) {
	for {
		s.mu.Lock()
		best, n = s.best(life, want)
		err, news := s.err, s.news
		s.mu.Unlock()
		if n > 0 && (best-want).Abs() <= tolerance {
			return best, n, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return best, n, err
		}
	}
}
