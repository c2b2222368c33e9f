// Package classifiergen is the generator behind the command classifier-gen. From the declarations of
// device families (see package families for their markers) it writes
//
//   - a package of typed classifiers: exact matches on resource names and annotation keys;
//   - blocks of text in files that somebody else writes, between a line that contains
//     "BEGIN GENERATED name" and one that contains "END GENERATED name", in whatever comment syntax
//     the file has. The block is indented like its BEGIN line.
//
// The blocks are
//
//	match-conditions       items of a webhook's matchConditions (YAML)
//	managed-resources      items of a scheduler extender's managedResources (YAML)
//	protected-annotations  item "protected" of a ValidatingAdmissionPolicy's variables (YAML): the list
//	                       of pod annotation keys that only phasegpu may write
//	resource-table         the families' resource names (Markdown)
//	quota-table            the keys of a ResourceQuota that limit them (Markdown)
//	annotation-table       where their records and inventories are (Markdown)
//
// It is built on gengo as the generators of k8s.io/code-generator are. Gengo's authors promise no
// stability, so no other package may import it.
package classifiergen
