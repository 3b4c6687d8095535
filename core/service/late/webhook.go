package late

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// mostAnswer is how much of an answer is read, so that its connection can be used again.
const mostAnswer = 64 << 10

// post sends an event until it is taken, refused for good, or was tried often enough.
func (n *Notifier) post(ctx context.Context, e Event) error {
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	pause := n.o.Pause
	for try := 1; ; try++ {
		again, err := n.once(ctx, body)
		if err == nil || !again {
			return err
		}
		if try == n.o.Tries {
			return fmt.Errorf("tried %d times: %w", try, err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("tried %d times before the process stopped: %w", try, err)
		}
		pause *= 2
	}
}

// once sends an event, and reports whether it makes sense to try again if it failed.
func (n *Notifier) once(ctx context.Context, body []byte) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, n.o.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.o.Webhook, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "schedulerd")
	resp, err := n.o.Client.Do(req)
	var failed *url.Error
	if errors.As(err, &failed) {
		return true, failed.Err // without the URL, which may be a secret
	} else if err != nil {
		return true, err
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, mostAnswer))
	code := resp.StatusCode
	switch {
	case code >= 200 && code < 300:
		return false, nil
	case code == http.StatusRequestTimeout || code == http.StatusTooManyRequests || code >= 500:
		return true, fmt.Errorf("the webhook answers %s", resp.Status)
	}
	return false, fmt.Errorf("the webhook answers %s", resp.Status)
}
