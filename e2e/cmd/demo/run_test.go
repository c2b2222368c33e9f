package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// TestRun: the demo plays a scenario, leaves a cluster to the user with KEEP, and nothing when interrupted.
func TestRun(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	shown := transcript{news: make(chan struct{}, 1)}
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"2"}, true, &screen{Writer: &shown, width: 110}) }()
	kubeconfig := ""
	for kubeconfig == "" { // it may have to build first, which takes as long as it takes
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v\n%s", err, shown.String())
		case <-shown.news:
			shows := regexp.MustCompile(`KUBECONFIG=(\S+)\n(?s:.*)Ctrl-C`)
			if found := shows.FindStringSubmatch(shown.String()); found != nil {
				kubeconfig = found[1]
			}
		}
	}
	for _, want := range []string{"submitted   trainer: ", "▲ peak    20480 MiB",
		"= 30720 MiB, the devices have 24576: REFUSED", "20480 of 24576 MiB, 4096 free", "✓  2  A pod"} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("it does not show %q:\n%s", want, shown.String())
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 2 {
		t.Errorf("nodes %v, error %v; want two for the user", nodes, err)
	}
	interrupt()
	if err := <-ended; err != nil {
		t.Errorf("interrupted, it ended with %v", err)
	}
	if _, err := os.Stat(filepath.Dir(filepath.Dir(kubeconfig))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it left its directory behind: %v", err)
	}
}

// transcript may be read while it is written.
type transcript struct {
	news chan struct{} // there is more; room for one
	mu   sync.Mutex
	text strings.Builder
}

func (x *transcript) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	select {
	case x.news <- struct{}{}:
	default:
	}
	return x.text.Write(p)
}

func (x *transcript) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.text.String()
}
