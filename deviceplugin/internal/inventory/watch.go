package inventory

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// WatchFile reads the file now and whenever something changes beside it (a ConfigMap's files are symbolic
// links that are exchanged one folder up), until ctx ends. The first reading must succeed; later ones that
// fail are told to failed, and what was read before stays.
func WatchFile(ctx context.Context, path string, read func([]Card) error, failed func(error)) error {
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
		return read(cards)
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
				failed(err)
			}
		case err := <-watcher.Errors:
			failed(fmt.Errorf("watching the inventory file: %w", err))
			if err := load(); err != nil { // events may be lost
				failed(err)
			}
		}
	}
}
