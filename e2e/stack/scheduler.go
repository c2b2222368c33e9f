package stack

import (
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// schedulerConfig reads the committed configuration of kube-scheduler and adapts it: where the extender
// listens, and as whom the scheduler works.
func schedulerConfig(root, extenderURL, kubeconfig string, change func(map[string]any)) ([]byte, error) {
	path := filepath.Join(root, "extender", "manifests", "scheduler-config.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	connection, ok := config["clientConnection"].(map[string]any)
	if !ok {
		connection = map[string]any{}
		config["clientConnection"] = connection
	}
	connection["kubeconfig"] = kubeconfig
	extenders, ok := config["extenders"].([]any)
	if !ok || len(extenders) != 1 {
		return nil, fmt.Errorf("%s: want one extender", path)
	}
	extender, ok := extenders[0].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: the extender is no object", path)
	}
	extender["urlPrefix"] = extenderURL
	if change != nil {
		change(config)
	}
	return yaml.Marshal(config)
}

// Patient is for Options.Scheduler: the scheduler keeps its Lease for a minute without a word from the API
// server. With the usual ten seconds it ends when a test, or what runs beside it, leaves it none of the processors.
func Patient(config map[string]any) {
	election, ok := config["leaderElection"].(map[string]any)
	if !ok {
		election = map[string]any{}
		config["leaderElection"] = election
	}
	election["leaseDuration"], election["renewDeadline"] = "90s", "60s"
}
