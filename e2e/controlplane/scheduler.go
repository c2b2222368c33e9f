package controlplane

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/phasegpu/phasegpu/e2e/process"
)

// StartScheduler starts kube-scheduler, in place of the one that runs, with a KubeSchedulerConfiguration
// (YAML or JSON). One that names no clientConnection.kubeconfig gets that of user system:kube-scheduler. It
// returns when the scheduler's caches are filled; if the configuration elects a leader, that may be before
// it leads.
func (c *ControlPlane) StartScheduler(ctx context.Context, config []byte) error {
	config, err := withKubeconfig(config, c.SchedulerKubeconfig())
	if err != nil {
		return err
	}
	if err := c.Scheduler.Stop(ctx); err != nil {
		return err
	}
	if err := writeFile(c.file("scheduler", "config.yaml"), config); err != nil {
		return err
	}
	return c.Scheduler.Start(ctx)
}

// SchedulerPage reads a page of the running scheduler: "/metrics", "/debug/pprof/profile?seconds=5".
func (c *ControlPlane) SchedulerPage(ctx context.Context, path string) ([]byte, error) {
	client, err := rest.HTTPClientFor(&rest.Config{
		BearerToken:     c.tokens["admin"],
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}, // its certificate is its own
	})
	if err != nil {
		return nil, err
	}
	return process.Get(ctx, client, c.SchedulerURL+path)
}

func withKubeconfig(config []byte, path string) ([]byte, error) {
	var fields map[string]any
	if err := yaml.Unmarshal(config, &fields); err != nil {
		return nil, fmt.Errorf("scheduler configuration: %w", err)
	}
	if fields["kind"] != "KubeSchedulerConfiguration" {
		return nil, fmt.Errorf("scheduler configuration: kind is %v, want KubeSchedulerConfiguration", fields["kind"])
	}
	connection, ok := fields["clientConnection"].(map[string]any)
	if !ok {
		connection = map[string]any{}
		fields["clientConnection"] = connection
	}
	if p, _ := connection["kubeconfig"].(string); p == "" {
		connection["kubeconfig"] = path
	}
	return yaml.Marshal(fields)
}
