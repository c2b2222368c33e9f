// Package build builds the programs of a Kubernetes control plane from Go modules and keeps them outside
// the tree.
//
// The modules are pinned in e2e/controlplane/kubernetes and e2e/controlplane/etcd, each a module of its own
// outside the workspace. A cold build takes 10 to 20 minutes on two cores and 5 GB of Go's build cache; it
// is done once. The binaries lie in
//
//	$PHASEGPU_CACHE or <user cache directory>/phasegpu, in kubernetes-<version>-<hash>/ and etcd-<version>-<hash>/
//
// where the hash is of all that decides their content: go.mod, go.sum, sources, flags and platform.
package build

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/phasegpu/phasegpu/e2e/checkout"
)

// module is one of the pinned modules.
type module struct {
	dir      string            // below e2e/controlplane, and first part of the cache folder's name
	pinned   string            // the module whose version is the programs' version
	sources  []string          // files of dir that decide what is built, besides go.mod and go.sum
	programs map[string]string // name → package
	ldflags  func(version string) string
}

func modules() []module {
	kubernetes := map[string]string{}
	for _, name := range []string{
		"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubeadm", "kubectl", "kube-proxy",
	} {
		kubernetes[name] = "k8s.io/kubernetes/cmd/" + name
	}
	return []module{{
		dir:      "kubernetes",
		pinned:   "k8s.io/kubernetes",
		programs: kubernetes,
		ldflags:  kubernetesVersionFlags,
	}, {
		dir:      "etcd",
		pinned:   "go.etcd.io/etcd/server/v3",
		sources:  []string{"main.go"},
		programs: map[string]string{"etcd": "."},
		ldflags:  func(string) string { return "-s -w" },
	}}
}

// kubernetesVersionFlags sets what the programs say of themselves; from v0.0.0 they would refuse to start.
func kubernetesVersionFlags(version string) string {
	const pkg = "k8s.io/component-base/version"
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	return fmt.Sprintf("-s -w -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s", pkg, version,
		major, minor)
}

// location is where a module's sources are and where its binaries belong.
type location struct {
	module
	source  string // directory
	bin     string // directory
	version string
}

func (m module) locate() (location, error) {
	root, err := checkout.Root()
	if err != nil {
		return location{}, err
	}
	l := location{module: m, source: filepath.Join(root, "e2e", "controlplane", m.dir)}
	hash := sha256.New()
	for _, name := range append([]string{"go.mod", "go.sum"}, m.sources...) {
		text, err := os.ReadFile(filepath.Join(l.source, name))
		if err != nil {
			return location{}, err
		}
		fmt.Fprintf(hash, "%s %d\n%s", name, len(text), text)
		if name == "go.mod" {
			if l.version, err = versionIn(string(text), m.pinned); err != nil {
				return location{}, fmt.Errorf("%s: %w", filepath.Join(l.source, name), err)
			}
		}
	}
	fmt.Fprintln(hash, l.flags(), environment(), runtime.GOOS, runtime.GOARCH)
	cache, err := cacheDir()
	if err != nil {
		return location{}, err
	}
	l.bin = filepath.Join(cache, fmt.Sprintf("%s-%s-%.6x", m.dir, l.version, hash.Sum(nil)))
	return l, nil
}

func (l location) flags() []string {
	return []string{"-trimpath", "-ldflags", l.ldflags(l.version)}
}

// environment makes a build independent of the workspace and of its user's settings.
func environment() []string {
	return []string{"CGO_ENABLED=0", "GOWORK=off", "GOFLAGS="}
}

// versionIn finds the version that a go.mod requires of a module.
func versionIn(goMod, path string) (string, error) {
	m := regexp.MustCompile(`(?m)^(?:require |\t)` + regexp.QuoteMeta(path) + ` (v\S+)`).FindStringSubmatch(goMod)
	if m == nil {
		return "", fmt.Errorf("requires no %s", path)
	}
	return m[1], nil
}

func cacheDir() (string, error) {
	if dir := os.Getenv("PHASEGPU_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("where to keep the control plane's binaries? Set PHASEGPU_CACHE: %w", err)
	}
	return filepath.Join(dir, "phasegpu"), nil
}

// moduleOf finds the module that has a program.
func moduleOf(program string) (module, error) {
	var known []string
	for _, m := range modules() {
		if _, ok := m.programs[program]; ok {
			return m, nil
		}
		for name := range m.programs {
			known = append(known, name)
		}
	}
	slices.Sort(known)
	return module{}, fmt.Errorf("no program %q; there are %s", program, strings.Join(known, ", "))
}
