//go:build cgo

package nvml

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/phasegpu/phasegpu/deviceplugin/internal/inventory"
)

const (
	// waitMilliseconds is how long one wait for events lasts: as long as it takes to end.
	waitMilliseconds = 1000
	// listenAgain is the pause after which a broken stream of events is made anew.
	listenAgain = 2 * time.Second
)

// Watch follows the node's cards until ctx ends. It fails when NVML cannot be started.
func Watch(ctx context.Context, o Options) error {
	lib := nvml.New()
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return fmt.Errorf("NVML cannot be started: %w: this node has no NVIDIA driver, or the container does not see "+
			"it "+
			"(declare cards without a driver with --inventory-file)", ret)
	}
	defer lib.Shutdown()
	return watch(ctx, lib, pciDevices, o)
}

// xid is an error that a card reported.
type xid struct {
	uuid string
	code uint64
}

// watch looks at the cards at every probe and after every fatal XID. A card's health follows from whether it answers
// and when it last reported a fatal XID, not from whether events come.
func watch(ctx context.Context, lib nvml.Interface, pci string, o Options) error {
	cards, err := look(lib, nil, pci)
	if cards == nil {
		return err
	}
	if err != nil {
		o.problem(err)
	}
	if err := o.Cards(cards); err != nil {
		return err
	}
	events := make(chan xid)
	fatal := map[string]time.Time{} // by UUID: its last fatal XID
	// listening ends and begins again with the cards that answer: one that was reset must be registered anew.
	listening := listen(ctx, lib, answering(cards), events, o.problem)
	defer func() { listening.end() }()
	probe := time.NewTicker(o.ProbeEvery)
	defer probe.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-events:
			condemns := !slices.Contains(o.IgnoredXIDs, e.code)
			o.XID(e.uuid, e.code, condemns)
			if !condemns {
				continue
			}
			fatal[e.uuid] = time.Now()
		case <-probe.C:
		}
		now, err := look(lib, cards, pci)
		if err != nil {
			o.problem(err)
		}
		if now == nil {
			continue // NVML failed as a whole, which does not mean that there are no cards
		}
		if !slices.Equal(answering(cards), answering(now)) {
			listening.end()
			listening = listen(ctx, lib, answering(now), events, o.problem)
		}
		cards = now
		if err := o.Cards(judge(cards, fatal, o.RecoverAfter)); err != nil {
			o.problem(err)
		}
	}
}

// judge returns the cards, those unhealthy that had a fatal XID lately.
func judge(cards []inventory.Card, fatal map[string]time.Time, recoverAfter time.Duration) []inventory.Card {
	cards = slices.Clone(cards)
	for i := range cards {
		if last, ok := fatal[cards[i].UUID]; ok && time.Since(last) < recoverAfter {
			cards[i].Healthy = false
		}
	}
	return cards
}

// answering returns the UUIDs of the cards that answer.
func answering(cards []inventory.Card) []string {
	var uuids []string
	for _, c := range cards {
		if c.Healthy {
			uuids = append(uuids, c.UUID)
		}
	}
	return uuids
}

// listener is a goroutine that receives events.
type listener struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// end returns when it has ended.
func (l listener) end() {
	l.cancel()
	<-l.done
}

// listen sends the cards' XIDs to events. A broken stream is a problem and is made anew; the cards stay as they are.
func listen(ctx context.Context, lib nvml.Interface, uuids []string, events chan<- xid, problem func(error)) listener {
	ctx, cancel := context.WithCancel(ctx)
	l := listener{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		for ctx.Err() == nil {
			err := stream(ctx, lib, uuids, events, problem)
			if err == nil {
				return
			}
			problem(fmt.Errorf("XIDs are lost for a while: %w", err))
			select {
			case <-ctx.Done():
			case <-time.After(listenAgain):
			}
		}
	}()
	return l
}

// stream receives events until ctx ends or the stream breaks.
func stream(ctx context.Context, lib nvml.Interface, uuids []string, events chan<- xid, problem func(error)) error {
	set, ret := lib.EventSetCreate()
	if ret != nvml.SUCCESS {
		return fmt.Errorf("NVML: event set: %w", ret)
	}
	defer set.Free()
	registered := 0
	for _, uuid := range uuids {
		d, ret := lib.DeviceGetHandleByUUID(uuid)
		if ret == nvml.SUCCESS {
			ret = d.RegisterEvents(nvml.EventTypeXidCriticalError, set)
		}
		if ret == nvml.SUCCESS {
			registered++
		} else {
			problem(fmt.Errorf("NVML: XIDs of card %s are not reported: %w", uuid, ret))
		}
	}
	if registered == 0 {
		<-ctx.Done()
		return nil
	}
	for ctx.Err() == nil {
		event, ret := set.Wait(waitMilliseconds)
		if ret == nvml.ERROR_TIMEOUT {
			continue
		}
		if ret != nvml.SUCCESS {
			return fmt.Errorf("NVML: waiting for events: %w", ret)
		}
		if event.EventType != nvml.EventTypeXidCriticalError {
			continue
		}
		uuid, ret := event.Device.GetUUID()
		if ret != nvml.SUCCESS {
			// A card that does not give its UUID will not answer the next probe either.
			problem(fmt.Errorf("NVML: XID %d of a card that does not give its UUID: %w", event.EventData, ret))
			continue
		}
		select {
		case events <- xid{uuid, event.EventData}:
		case <-ctx.Done():
		}
	}
	return nil
}
