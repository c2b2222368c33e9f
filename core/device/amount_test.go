package device

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func TestAmountArithmetic(t *testing.T) {
	const most = math.MaxInt64
	for _, c := range []struct {
		name        string
		a, b        Amount
		sum, diff   Amount
		over, under bool // a+b leaves the range, a-b leaves the range
	}{
		{"each dimension on its own", Amount{3, 2000, 50}, Amount{1, 500, 50}, Amount{4, 2500, 100},
			Amount{2, 1500, 0}, false, false},
		{"zero", Amount{1, 2, 3}, Amount{}, Amount{1, 2, 3}, Amount{1, 2, 3}, false, false},
		{"equal", Amount{1, 2, 3}, Amount{1, 2, 3}, Amount{2, 4, 6}, Amount{}, false, false},
		{"to the very top", Amount{most - 1, most - 1, most - 1}, Amount{1, 1, 1}, Amount{most, most, most},
			Amount{most - 2, most - 2, most - 2}, false, false},
		{"slots", Amount{most, 5, 5}, Amount{1, 1, 1}, Amount{}, Amount{most - 1, 4, 4}, true, false},
		{"memory", Amount{5, most, 5}, Amount{1, 1, 1}, Amount{}, Amount{4, most - 1, 4}, true, false},
		{"cores", Amount{5, 5, most}, Amount{1, 1, 1}, Amount{}, Amount{4, 4, most - 1}, true, false},
		{"both at the top", Amount{most, most, most}, Amount{most, most, most}, Amount{}, Amount{}, true, false},
		{"too few slots", Amount{1, 5, 5}, Amount{2, 1, 1}, Amount{3, 6, 6}, Amount{}, false, true},
		{"too little memory", Amount{5, 1, 5}, Amount{1, 2, 1}, Amount{6, 3, 6}, Amount{}, false, true},
		{"too few cores", Amount{5, 5, 1}, Amount{1, 1, 2}, Amount{6, 6, 3}, Amount{}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			sum, err := c.a.Add(c.b)
			if sum != c.sum || errors.Is(err, ErrOverflow) != c.over || (err != nil) != c.over {
				t.Errorf("sum %v, %v", sum, err)
			}
			diff, err := c.a.Sub(c.b)
			if diff != c.diff || errors.Is(err, ErrUnderflow) != c.under || (err != nil) != c.under {
				t.Errorf("difference %v, %v", diff, err)
			}
		})
	}
}

// A negative amount is some other code's mistake. Neither operation lets it into a book.
func TestAmountRefusesNegative(t *testing.T) {
	five := Amount{5, 5, 5}
	for _, bad := range []Amount{{-1, 0, 0}, {0, -1, 0}, {0, 0, -1}, {math.MinInt64, 0, 0}} {
		for name, operation := range map[string]func() (Amount, error){
			"five + bad": func() (Amount, error) { return five.Add(bad) },
			"bad + five": func() (Amount, error) { return bad.Add(five) },
			"five - bad": func() (Amount, error) { return five.Sub(bad) },
			"bad - five": func() (Amount, error) { return bad.Sub(five) },
			"bad - bad":  func() (Amount, error) { return bad.Sub(bad) },
		} {
			if got, err := operation(); !errors.Is(err, ErrUnderflow) || got != (Amount{}) {
				t.Errorf("%s with %v: %v, %v", name, bad, got, err)
			}
		}
	}
}

// The naive twin has numbers without end.
func TestAmountProperty(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	edge := func() int64 {
		n := r.Int64() >> r.IntN(64)
		if r.IntN(2) == 0 {
			return math.MaxInt64 - n
		}
		return n
	}
	for range 20000 {
		a, b := Amount{edge(), edge(), edge()}, Amount{edge(), edge(), edge()}
		x := [3]int64{a.Slots, a.MemoryMiB, a.Cores}
		y := [3]int64{b.Slots, b.MemoryMiB, b.Cores}
		sumFits, diffFits := true, true
		var sums, diffs [3]int64
		for i := range x {
			s := new(big.Int).Add(big.NewInt(x[i]), big.NewInt(y[i]))
			d := new(big.Int).Sub(big.NewInt(x[i]), big.NewInt(y[i]))
			sumFits = sumFits && s.IsInt64()
			diffFits = diffFits && d.Sign() >= 0
			sums[i], diffs[i] = s.Int64(), d.Int64()
		}
		if got, err := a.Add(b); (err == nil) != sumFits || sumFits && got != (Amount{sums[0], sums[1], sums[2]}) {
			t.Fatalf("seed %d: %v + %v = %v, %v", seed, a, b, got, err)
		}
		if got, err := a.Sub(b); (err == nil) != diffFits || diffFits && got != (Amount{diffs[0], diffs[1], diffs[2]}) {
			t.Fatalf("seed %d: %v - %v = %v, %v", seed, a, b, got, err)
		}
		if b.Within(a) != diffFits {
			t.Fatalf("seed %d: %v within %v: %v", seed, b, a, !diffFits)
		}
		if m := a.Max(b); !a.Within(m) || !b.Within(m) || m.Slots != max(x[0], y[0]) || m.MemoryMiB != max(x[1],
			y[1]) || m.Cores != max(x[2], y[2]) {
			t.Fatalf("seed %d: max of %v and %v is %v", seed, a, b, m)
		}
	}
}

func TestAmountString(t *testing.T) {
	if got, want := (Amount{1, 2048, 30}).String(), "1 slots, 2048 MiB, 30% cores"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if !(Amount{}).IsZero() || (Amount{Cores: 1}).IsZero() {
		t.Error("IsZero")
	}
}
