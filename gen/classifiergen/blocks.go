package classifiergen

import (
	"fmt"
	"strings"

	"github.com/phasegpu/phasegpu/gen/families"
)

// blocks returns the lines of every block by name.
func blocks(all []families.Family) map[string][]string {
	return map[string][]string{
		"annotation-table":      annotationTable(all),
		"match-conditions":      matchConditions(all),
		"managed-resources":     managedResources(all),
		"protected-annotations": protectedAnnotations(all),
		"quota-table":           quotaTable(all),
		"resource-table":        resourceTable(all),
	}
}

// matchConditions selects the pods with a family's resource in any container, or with a protected annotation. Ephemeral
// containers are left out: Kubernetes allows them no resources. Only the containers can be null (a pod that is yet to
// be refused for having none). The cost is a few hundred units for an ordinary pod, where a request may spend millions:
// each container's few resource names are looked up in one constant list, which the API server folds into a set.
func matchConditions(all []families.Family) []string {
	var resources []string
	for i := range all {
		for _, name := range all[i].Resources() {
			resources = append(resources, string(name))
		}
	}
	lines := []string{
		"- name: devices-or-records",
		"  expression: >-",
		"    [object.spec.containers == null ? [] : object.spec.containers, " +
			"object.spec.?initContainers.orValue([])].exists(containers,",
		"      containers.exists(c,",
		"        [c.?resources.?limits.orValue({}), c.?resources.?requests.orValue({})].exists(amounts,",
		"          amounts.exists(name, name in [",
	}
	lines = append(lines, celList(resources, "            ")...)
	lines = append(lines,
		"          ]))))",
		"    || object.metadata.?annotations.orValue({}).exists(key, key in [",
	)
	lines = append(lines, celList(families.ProtectedAnnotations(all), "      ")...)
	return append(lines, "    ])")
}

func protectedAnnotations(all []families.Family) []string {
	lines := []string{
		"- name: protected",
		"  expression: >-",
		"    [",
	}
	lines = append(lines, celList(families.ProtectedAnnotations(all), "    ")...)
	return append(lines, "    ]")
}

// celList returns the items of a CEL list of strings, one a line.
func celList(items []string, indent string) []string {
	lines := make([]string, len(items))
	for i, item := range items {
		comma := ","
		if i == len(items)-1 {
			comma = ""
		}
		lines[i] = fmt.Sprintf("%s'%s'%s", indent, item, comma)
	}
	return lines
}

func managedResources(all []families.Family) []string {
	var lines []string
	for _, r := range families.ManagedResources(all) {
		lines = append(lines,
			fmt.Sprintf("- name: %s", r.Name),
			fmt.Sprintf("  ignoredByScheduler: %t", r.IgnoredByScheduler))
	}
	return lines
}

func resourceTable(all []families.Family) []string {
	lines := []string{
		"| Family | Devices | Memory per device | Percent of memory | Cores (percent) |",
		"|---|---|---|---|---|",
	}
	for i := range all {
		f := &all[i]
		unit, percent, cores := "MiB", "–", ""
		if f.MemoryBlockMiB != 1 {
			unit = fmt.Sprintf("blocks of %d MiB", f.MemoryBlockMiB)
		}
		if f.MemoryPercent != "" {
			percent = fmt.Sprintf("`%s`", f.MemoryPercent)
		}
		if f.DefaultCores != 0 {
			cores = fmt.Sprintf(", %d when absent", f.DefaultCores)
		}
		lines = append(lines, strings.Join([]string{
			"| " + f.Word,
			fmt.Sprintf("`%s`", f.Count),
			fmt.Sprintf("`%s`, %s", f.Memory, unit),
			percent,
			fmt.Sprintf("`%s`%s |", f.Cores, cores),
		}, " | "))
	}
	return lines
}

// quotaTable lists the keys of a ResourceQuota that are read, as gen/kube.Quota does.
func quotaTable(all []families.Family) []string {
	lines := []string{
		"| Family | Memory, MiB × devices | Cores, percent × devices |",
		"|---|---|---|",
	}
	for i := range all {
		f := &all[i]
		unit := ""
		if f.MemoryBlockMiB != 1 {
			unit = fmt.Sprintf(", in blocks of %d MiB", f.MemoryBlockMiB)
		}
		lines = append(lines, fmt.Sprintf("| %[1]s | `limits.%[2]s`, `requests.%[2]s`%[3]s | `limits.%[4]s`, "+
			"`requests.%[4]s` |", f.Word, f.Memory, unit, f.Cores))
	}
	return lines
}

// annotationTable lists where a family's record and inventory are.
func annotationTable(all []families.Family) []string {
	lines := []string{
		"| Family | Record, on the pod | Inventory, on the node |",
		"|---|---|---|",
	}
	for i := range all {
		f := &all[i]
		inventory := "the node's capacity"
		if f.NodeAnnotation != "" {
			inventory = fmt.Sprintf("`%s`", f.NodeAnnotation)
		}
		lines = append(lines, fmt.Sprintf("| %s | `%s` | %s |", f.Word, f.PodAnnotation, inventory))
	}
	return lines
}
