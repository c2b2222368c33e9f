package report

import "testing"

func TestAmountInWords(t *testing.T) {
	for _, c := range []struct {
		amount      Amount
		held, freed string
	}{
		{Amount{Slots: 1, MemoryMiB: 8000, Cores: 50}, "8000 MiB and 50 % cores", "8000 MiB and 50 % cores"},
		{Amount{Slots: 1, MemoryMiB: 8000}, "8000 MiB", "8000 MiB"},
		{Amount{Slots: 1, Cores: 50}, "0 MiB and 50 % cores", "50 % cores"},
		{Amount{Slots: 1}, "0 MiB", "1 slot"},
		{Amount{Slots: 2}, "0 MiB", "2 slots"},
	} {
		if held, freed := c.amount.Held(), c.amount.Freed(); held != c.held || freed != c.freed {
			t.Errorf("%+v: held %q, freed %q; want %q, %q", c.amount, held, freed, c.held, c.freed)
		}
	}
	less := Amount{1, 10, 5}.Minus(Amount{2, 4, 5})
	if less != (Amount{-1, 6, 0}) || less.Positive() != (Amount{0, 6, 0}) || less.Plus(Amount{2, 4, 5}) != (Amount{1, 10, 5}) {
		t.Errorf("sums of amounts: %+v", less)
	}
}
