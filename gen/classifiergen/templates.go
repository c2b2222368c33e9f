package classifiergen

// familiesBody is the declarations as values.
const familiesBody = `
// Families returns all families, sorted by type word.
func Families() []families.Family {
	return []families.Family{
		{{- range .all}}
		family{{.Name}}(),
		{{- end}}
	}
}

// Family returns the family of a type word, exactly, or nil.
func Family(word string) *families.Family {
	var f families.Family
	switch word {
	{{- range .all}}
	case {{printf "%q" .Word}}:
		f = family{{.Name}}()
	{{- end}}
	default:
		return nil
	}
	return &f
}
{{range .all}}
func family{{.Name}}() families.Family {
	return families.Family{
		Word: {{printf "%q" .Word}},
		Count: {{printf "%q" .Count}},
		Memory: {{printf "%q" .Memory}},
		{{- if .MemoryPercent}}
		MemoryPercent: {{printf "%q" .MemoryPercent}},
		{{- end}}
		Cores: {{printf "%q" .Cores}},
		MemoryBlockMiB: {{.MemoryBlockMiB}},
		DefaultCores: {{.DefaultCores}},
		{{- if .NodeAnnotation}}
		NodeAnnotation: {{printf "%q" .NodeAnnotation}},
		{{- end}}
		PodAnnotation: {{printf "%q" .PodAnnotation}},
		Advertised: []corev1.ResourceName{ {{range .Advertised}}{{printf "%q" .}}, {{end}}},
		Refit: {{.Refit}},
	}
}
{{end}}`

// classifyBody is the classifiers: exact matches, which the compiler turns into comparisons.
const classifyBody = `
// Resource returns the type word and the kind of a family's resource, families.Other for any other name.
func Resource(name corev1.ResourceName) (word string, kind families.Kind) {
	switch name {
	{{- range .all}}
	case {{printf "%q" .Count}}:
		return {{printf "%q" .Word}}, families.Count
	case {{printf "%q" .Memory}}:
		return {{printf "%q" .Word}}, families.Memory
	{{- if .MemoryPercent}}
	case {{printf "%q" .MemoryPercent}}:
		return {{printf "%q" .Word}}, families.MemoryPercent
	{{- end}}
	case {{printf "%q" .Cores}}:
		return {{printf "%q" .Word}}, families.Cores
	{{- end}}
	}
	return "", families.Other
}

// Allocation returns the type word of the family whose allocation a pod annotation records, or "".
func Allocation(annotation string) (word string) {
	switch annotation {
	{{- range .all}}
	case {{printf "%q" .PodAnnotation}}:
		return {{printf "%q" .Word}}
	{{- end}}
	}
	return ""
}

// Protected reports whether only phasegpu's own service accounts may write a pod annotation.
func Protected(annotation string) bool {
	switch annotation {
	case {{range $i, $key := .protected}}{{if $i}},
		{{end}}{{printf "%q" $key}}{{end}}:
		return true
	}
	return false
}

// ProtectedAnnotations returns the keys for which Protected holds.
func ProtectedAnnotations() []string { return families.ProtectedAnnotations(Families()) }

// ManagedResources returns the resources that a scheduler extender manages.
func ManagedResources() []families.ManagedResource { return families.ManagedResources(Families()) }

// Asks reports whether resources name any resource of any family. It does not allocate.
func Asks(r *corev1.ResourceRequirements) bool {
	for name := range r.Limits {
		if _, kind := Resource(name); kind != families.Other {
			return true
		}
	}
	for name := range r.Requests {
		if _, kind := Resource(name); kind != families.Other {
			return true
		}
	}
	return false
}

// Request reads what a container asks for; the zero Request, without allocating, when it asks for no
// device. Missing count, cores and memory get their defaults. Errors name the resource and the fix:
// two families, memory beside a percentage, requests that differ from limits, a fraction, a binary
// suffix, a number out of range.
func Request(r *corev1.ResourceRequirements) (device.Request, error) {
	if !Asks(r) {
		return device.Request{}, nil
	}
	return families.Request(r, Resource, Family)
}
`
