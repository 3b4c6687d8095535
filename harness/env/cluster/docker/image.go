package docker

import (
	"context"
	"fmt"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// pullEvery is how often the progress of a pull is told.
const pullEvery = 2 * time.Second

// ensureImage pulls the image if it is not here, and says so.
func ensureImage(ctx context.Context, cli *client.Client, image string, say func(string)) error {
	_, err := cli.ImageInspect(ctx, image)
	if err == nil {
		return nil
	}
	if !cerrdefs.IsNotFound(err) {
		return fmt.Errorf("docker: image %s: %w", image, err)
	}
	say(fmt.Sprintf("pulling %s …", image))
	began := time.Now()
	resp, err := cli.ImagePull(ctx, image, client.ImagePullOptions{})
	if err != nil {
		return &ImageError{Image: image, Err: err}
	}
	p := pull{layers: map[string]layer{}}
	told := began
	for m, err := range resp.JSONMessages(ctx) {
		if err == nil && m.Error != nil {
			err = m.Error
		}
		if err != nil {
			return &ImageError{Image: image, Err: err}
		}
		if m.Progress != nil && m.Status == "Downloading" {
			p.layers[m.ID] = layer{m.Progress.Current, m.Progress.Total}
		} else if l, ok := p.layers[m.ID]; ok && m.Status == "Download complete" {
			p.layers[m.ID] = layer{l.total, l.total}
		}
		if time.Since(told) >= pullEvery {
			told = time.Now()
			say(fmt.Sprintf("pulling %s: %s", image, p))
		}
	}
	say(fmt.Sprintf("pulled %s in %.0f s", image, time.Since(began).Seconds()))
	return nil
}

type layer struct{ done, total int64 }

// pull is how far the layers of an image are.
type pull struct{ layers map[string]layer }

func (p pull) String() string {
	var sum layer
	for _, l := range p.layers {
		sum.done += l.done
		sum.total += l.total
	}
	return fmt.Sprintf("%d of %d MB in %d layers", sum.done/1e6, sum.total/1e6, len(p.layers))
}
