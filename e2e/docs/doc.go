// Package docs holds README.md and the other pages to the code: commands run, manifests are admitted, links lead
// somewhere, annotations, keys of a ResourceQuota and metrics are those of the code, and the figures of
// docs/concepts.md are those of kind/samples/serving.yaml.
package docs
