package controlplane

import (
	"context"
	"fmt"

	"sigs.k8s.io/yaml"
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
