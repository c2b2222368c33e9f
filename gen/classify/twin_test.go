package classify_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/big"
	"math/rand"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/gen/classify"
	"github.com/phasegpu/phasegpu/gen/families"
)

// twin is a naive second reading of the declarations and of containers: it takes the markers from the
// source text itself and walks values by reflection.
type twin map[string][]string // marker lines of a family, by type word

func readTwin(t *testing.T) twin {
	t.Helper()
	files, err := filepath.Glob("../families/*.go")
	if err != nil {
		t.Fatal(err)
	}
	all := twin{}
	marker := regexp.MustCompile(`(?m)^\+phasegpu:(\S+)$`)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			var lines []string
			for _, m := range marker.FindAllStringSubmatch(g.Doc.Text(), -1) {
				lines = append(lines, m[1])
			}
			if word := value(lines, "family"); word != "" {
				all[word] = lines
			}
		}
	}
	if len(all) < 8 {
		t.Fatalf("found declarations %v, want at least 8", all)
	}
	return all
}

func value(lines []string, name string) string {
	for _, line := range lines {
		if v, ok := strings.CutPrefix(line, name+"="); ok {
			return v
		}
	}
	return ""
}

func number(lines []string, name string, absent int64) int64 {
	n, err := strconv.ParseInt(value(lines, name), 10, 64)
	if err != nil {
		return absent
	}
	return n
}

// amounts returns field Limits or Requests of resources by reflection: name to text and exact value.
func amounts(r *corev1.ResourceRequirements, field string) (text map[string]string, exact map[string]*big.Rat) {
	text, exact = map[string]string{}, map[string]*big.Rat{}
	list := reflect.ValueOf(r).Elem().FieldByName(field)
	for iter := list.MapRange(); iter.Next(); {
		q := iter.Value().Interface().(resource.Quantity)
		name := iter.Key().String()
		text[name] = q.String()
		exact[name], _ = new(big.Rat).SetString(q.AsDec().String())
	}
	return text, exact
}

// request is what classify.Request must say; ok is false where it must refuse.
func (t twin) request(r *corev1.ResourceRequirements) (want device.Request, asks, ok bool) {
	text, limits := amounts(r, "Limits")
	_, requests := amounts(r, "Requests")
	ok = true
	found := map[string]map[string]*big.Rat{} // family, marker
	for word, lines := range t {
		for _, kind := range []string{"count", "memory", "memoryPercent", "cores"} {
			name := value(lines, kind)
			if name == "" {
				continue
			}
			limit, limited := limits[name]
			asked, requested := requests[name]
			asks = asks || limited || requested
			if requested && (!limited || limit.Cmp(asked) != 0) {
				ok = false
			}
			if !limited {
				continue
			}
			if found[word] == nil {
				found[word] = map[string]*big.Rat{}
			}
			found[word][kind] = limit
			if !limit.IsInt() || strings.HasSuffix(text[name], "i") {
				ok = false
			}
		}
	}
	if len(found) > 1 {
		ok = false
	}
	for word, f := range found {
		lines := t[word]
		read := func(kind string, absent, least, most int64) int64 {
			v, there := f[kind]
			if !there {
				return absent
			}
			if v.Cmp(new(big.Rat).SetInt64(least)) < 0 || v.Cmp(new(big.Rat).SetInt64(most)) > 0 {
				ok = false
				return 0
			}
			return v.Num().Int64()
		}
		block := number(lines, "memoryBlockMiB", 1)
		want.Family = word
		want.Devices = int(read("count", 1, 1, families.MaxDevices))
		want.MemoryMiB = read("memory", 0, 1, device.MaxMemoryMiB/block) * block
		want.MemoryPercent = read("memoryPercent", 0, 1, 100)
		want.Cores = read("cores", number(lines, "defaultCores", 0), 0, 100)
		if f["memory"] != nil && f["memoryPercent"] != nil {
			ok = false
		}
	}
	if !ok {
		want = device.Request{}
	}
	return want, asks, ok
}

func TestRequestEqualsTwin(t *testing.T) {
	twin := readTwin(t)
	seed := rand.Int63()
	rng := rand.New(rand.NewSource(seed))
	accepted, refused := 0, 0
	for range 20_000 {
		r := randomResources(rng, twin)
		want, asks, ok := twin.request(r)
		got, err := classify.Request(r)
		if ok != (err == nil) || got != want {
			t.Fatalf("seed %d: %s: got %+v, %v; want %+v, accepted %t", seed, show(r), got, err, want, ok)
		}
		if classify.Asks(r) != asks {
			t.Fatalf("seed %d: %s: Asks %t, want %t", seed, show(r), !asks, asks)
		}
		if asks && ok {
			accepted++
		} else if asks {
			refused++
		}
	}
	if accepted < 1000 || refused < 1000 {
		t.Errorf("only %d accepted and %d refused: the test has lost its reach", accepted, refused)
	}
}

func randomResources(rng *rand.Rand, t twin) *corev1.ResourceRequirements {
	var words []string
	for word := range t {
		words = append(words, word)
	}
	slices.Sort(words) // so that a seed repeats a run
	word := words[rng.Intn(len(words))]
	names := []string{"cpu", "memory", "nvidia.com/mig-1g.5gb", "nvidia.com/gpux", "xnvidia.com/gpu", "nvidia.com/GPU", "nvidia.com/gpumem-percentage2"}
	good := []string{"1", "2", "50", "100", "1k", "0.1k", "1e2", "2000m"}
	bad := []string{"0", "-1", "0.5", "99.1", "101", "16Gi", "1Ki", "1025", "32768", "32769", "8388608", "8388609",
		"2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "1e30"}
	r := &corev1.ResourceRequirements{}
	for range 1 + rng.Intn(4) {
		w := word
		if rng.Intn(12) == 0 {
			w = words[rng.Intn(len(words))]
		}
		name := value(t[w], []string{"count", "memory", "memoryPercent", "cores"}[rng.Intn(4)])
		if name == "" || rng.Intn(4) == 0 {
			name = names[rng.Intn(len(names))]
		}
		q := good[rng.Intn(len(good))]
		if rng.Intn(6) == 0 {
			q = bad[rng.Intn(len(bad))]
		}
		set(&r.Limits, name, q)
		switch rng.Intn(12) {
		case 0:
			set(&r.Requests, name, good[rng.Intn(len(good))])
		case 1, 2, 3:
			set(&r.Requests, name, q)
		case 4:
			delete(r.Limits, corev1.ResourceName(name))
		}
	}
	return r
}

func set(list *corev1.ResourceList, name, q string) {
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[corev1.ResourceName(name)] = resource.MustParse(q)
}

func show(r *corev1.ResourceRequirements) string {
	limits, _ := amounts(r, "Limits")
	requests, _ := amounts(r, "Requests")
	return fmt.Sprintf("limits %v requests %v", limits, requests)
}

// TestDeclarations holds the generated values to the source text of the declarations.
func TestDeclarations(t *testing.T) {
	twin := readTwin(t)
	if got := len(classify.Families()); got != len(twin) {
		t.Errorf("%d families are generated, %d declared", got, len(twin))
	}
	for word, lines := range twin {
		want := families.Family{
			Word:           word,
			Count:          corev1.ResourceName(value(lines, "count")),
			Memory:         corev1.ResourceName(value(lines, "memory")),
			MemoryPercent:  corev1.ResourceName(value(lines, "memoryPercent")),
			Cores:          corev1.ResourceName(value(lines, "cores")),
			MemoryBlockMiB: number(lines, "memoryBlockMiB", 1),
			DefaultCores:   number(lines, "defaultCores", 0),
			NodeAnnotation: strings.ReplaceAll(value(lines, "inventory"), "capacity", ""),
			PodAnnotation:  value(lines, "allocation"),
			Refit:          value(lines, "refit") == "true",
		}
		for _, line := range lines {
			if v, ok := strings.CutPrefix(line, "advertised="); ok {
				want.Advertised = append(want.Advertised, corev1.ResourceName(v))
			}
		}
		got := classify.Family(word)
		if got == nil {
			t.Errorf("family %s is not generated", word)
			continue
		}
		if diff := cmp.Diff(want, *got); diff != "" {
			t.Errorf("family %s (-declared +generated):\n%s", word, diff)
		}
		if classify.Allocation(want.PodAnnotation) != word || !classify.Protected(want.PodAnnotation) {
			t.Errorf("annotation %s is not known as the protected allocation of %s", want.PodAnnotation, word)
		}
	}
}
