package classifiergen

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/gengo/v2/codetags"
	"k8s.io/gengo/v2/types"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/gen/families"
)

const prefix = "+phasegpu:"

// declaration is a family and the name of the Go type that declares it.
type declaration struct {
	Name string
	families.Family
}

// declarations reads the families that a package declares, sorted by type word: gengo keeps no order.
func declarations(pkg *types.Package) ([]declaration, error) {
	var all []declaration
	for _, t := range pkg.Types {
		tags := codetags.Extract(prefix, append(slices.Clone(t.SecondClosestCommentLines), t.CommentLines...))
		if len(tags) == 0 {
			continue
		}
		f, err := family(tags)
		if err != nil {
			return nil, fmt.Errorf("type %s: %w", t.Name.Name, err)
		}
		all = append(all, declaration{t.Name.Name, f})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("package %s declares no family: mark a type with %sfamily=WORD", pkg.Path, prefix)
	}
	slices.SortFunc(all, func(a, b declaration) int {
		return cmp.Or(cmp.Compare(a.Word, b.Word), cmp.Compare(a.Name, b.Name))
	})
	return all, distinct(all)
}

// family reads the markers of one declaration.
func family(tags map[string][]string) (families.Family, error) {
	m := markers{values: map[string][]string{}}
	for name, lines := range tags {
		for _, line := range lines {
			tag, err := codetags.Parse(line, codetags.RawValues(true))
			if err != nil {
				return families.Family{}, fmt.Errorf("%s%s: %w", prefix, line, err)
			}
			m.values[name] = append(m.values[name], tag.Value)
		}
	}
	f := families.Family{
		Word:           m.one("family"),
		Count:          corev1.ResourceName(m.one("count")),
		Memory:         corev1.ResourceName(m.one("memory")),
		MemoryPercent:  corev1.ResourceName(m.optional("memoryPercent", "")),
		Cores:          corev1.ResourceName(m.one("cores")),
		MemoryBlockMiB: m.number("memoryBlockMiB", 1, 1, device.MaxMemoryMiB),
		DefaultCores:   m.number("defaultCores", 0, 0, device.WholeCores),
		NodeAnnotation: m.one("inventory"),
		PodAnnotation:  m.one("allocation"),
		Refit:          m.flag("refit"),
	}
	if f.NodeAnnotation == "capacity" {
		f.NodeAnnotation = ""
	}
	for _, name := range m.take("advertised") {
		if !slices.Contains(f.Resources(), corev1.ResourceName(name)) {
			m.fail("advertised", fmt.Sprintf("has value %q, which is none of the family's resources", name))
		}
		f.Advertised = append(f.Advertised, corev1.ResourceName(name))
	}
	if len(f.Advertised) == 0 {
		m.fail("advertised", "is missing: name the resource that kubelet advertises")
	}
	for _, name := range slices.Sorted(maps.Keys(m.values)) {
		m.fail(name, "is unknown: see package families for the markers")
	}
	return f, m.err
}

// distinct refuses two families that share a word, a resource or an annotation.
func distinct(all []declaration) error {
	owner := map[string]string{}
	for i := range all {
		d := &all[i]
		names := []string{"family " + d.Word, "annotation " + d.PodAnnotation}
		if d.NodeAnnotation != "" {
			names = append(names, "annotation "+d.NodeAnnotation)
		}
		for _, name := range d.Resources() {
			names = append(names, "resource "+string(name))
		}
		for _, name := range names {
			if other, ok := owner[name]; ok {
				return fmt.Errorf("types %s and %s both declare %s", other, d.Name, name)
			}
			owner[name] = d.Name
		}
	}
	return nil
}
