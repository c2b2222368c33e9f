package inventory

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// Observer takes a node's cards.
type Observer interface {
	Cards([]Card) error
	Problem(about string, err error)
}

// WatchFile reads the file now and after every change in its folder (a ConfigMap's files are symbolic links that are
// exchanged one folder up), until ctx ends. The first read must succeed. Later errors are problems, and the cards stay
// as they were.
func WatchFile(ctx context.Context, path string, o Observer) error {
	const about = "inventory_file"
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watching the inventory file: %w", err)
	}
	defer watcher.Close()
	// Before the first reading, so that no change is missed.
	if err := watcher.Add(filepath.Dir(path)); err != nil {
		return fmt.Errorf("watching the inventory file's directory %s: %w", filepath.Dir(path), err)
	}
	load := func() error {
		cards, err := ReadFile(path)
		if err != nil {
			return err
		}
		return o.Cards(cards)
	}
	if err := load(); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-watcher.Events:
			if err := load(); err != nil {
				o.Problem(about, err)
			}
		case err := <-watcher.Errors:
			o.Problem(about, fmt.Errorf("watching the inventory file: %w", err))
			if err := load(); err != nil { // events may be lost
				o.Problem(about, err)
			}
		}
	}
}
