package selfsigned

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"math/rand/v2"
	"testing"
	"time"
)

const (
	host = "phasegpu-webhook.phasegpu-system.svc"
	day  = 24 * time.Hour
)

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func advance(t *testing.T, s State, now time.Time) State {
	t.Helper()
	after, err := Advance(s, host, now)
	if err != nil {
		t.Fatal(err)
	}
	return after
}

// trusts reports whether a client with a bundle would accept a pair, by Go's own verification.
func trusts(bundle []byte, p Pair, now time.Time) bool {
	pair, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		return false
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err = pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now})
	return err == nil
}

func TestFirstRun(t *testing.T) {
	for name, s := range map[string]State{
		"nothing":            {},
		"empty":              {Current: Pair{[]byte{}, []byte{}}, Trusted: []byte("\n")},
		"garbage":            {Current: Pair{[]byte("garbage"), []byte("garbage")}, Next: Pair{[]byte("garbage"), nil}, Trusted: []byte("garbage")},
		"of another host":    {Current: must(issue("phasegpu-numarefit.phasegpu-system.svc", epoch))},
		"it has ended":       {Current: must(issue(host, epoch.Add(-100*day)))},
		"it has not begun":   {Current: must(issue(host, epoch.Add(day)))},
		"of another key":     {Current: Pair{must(issue(host, epoch)).Cert, must(issue(host, epoch)).Key}},
		"no key":             {Current: Pair{must(issue(host, epoch)).Cert, nil}},
		"successor is ended": {Next: must(issue(host, epoch.Add(-100*day)))},
	} {
		after := advance(t, s, epoch)
		if !trusts(after.Trusted, after.Current, epoch) {
			t.Errorf("%s: what is shown is not trusted", name)
		}
		if len(after.Next.Cert) != 0 {
			t.Errorf("%s: there is a successor", name)
		}
		if again := advance(t, after, epoch.Add(time.Minute)); !same(after, again) {
			t.Errorf("%s: a second run changes something", name)
		}
	}
}

// What an administrator put there by hand, and cert-manager's, is good as long as it lasts.
func TestForeignCertificateIsKept(t *testing.T) {
	s := State{Current: must(issue(host, epoch))}
	s.Trusted = s.Current.Cert
	if after := advance(t, s, epoch.Add(day)); !same(s, after) {
		t.Error("it is replaced")
	}
}

func TestSuccessorIsTrustedBeforeItIsShown(t *testing.T) {
	first := advance(t, State{}, epoch)
	if now := epoch.Add(59 * day); !same(first, advance(t, first, now)) {
		t.Error("renewed 31 days before the end")
	}
	now := epoch.Add(61 * day)
	announced := advance(t, first, now)
	if !bytes.Equal(announced.Current.Cert, first.Current.Cert) || !trusts(announced.Trusted, announced.Next, now) || !trusts(announced.Trusted, announced.Current, now) {
		t.Fatal("29 days before the end, both are to be trusted and the old one shown")
	}
	if after := advance(t, announced, now.Add(propagation-time.Minute)); !same(announced, after) {
		t.Error("shown before everybody trusts it")
	}
	unsaid := announced
	unsaid.Trusted = first.Trusted
	late := now.Add(day)
	again := advance(t, unsaid, late)
	if bytes.Equal(again.Next.Cert, announced.Next.Cert) || !trusts(again.Trusted, again.Next, late) {
		t.Error("nobody was told, because the run before ended half way: another is to be announced, whose hour begins")
	}
	if after := advance(t, again, late.Add(propagation-time.Minute)); !same(again, after) {
		t.Error("shown within the hour after it was announced at last")
	}
	later := now.Add(propagation + time.Minute)
	renewed := advance(t, announced, later)
	if !bytes.Equal(renewed.Current.Cert, announced.Next.Cert) || len(renewed.Next.Cert) != 0 {
		t.Error("not shown an hour later")
	}
	if !trusts(renewed.Trusted, first.Current, later) {
		t.Error("the old one, which servers show for a minute yet, is not trusted any more")
	}
	if after := advance(t, renewed, epoch.Add(91*day)); len(certificates(after.Trusted)) != 1 {
		t.Errorf("%d certificates are trusted when the old one has ended", len(certificates(after.Trusted)))
	}
}

// Years of runs at odd times, of which some end half way: what servers show, and have shown within the hour, is always
// trusted by clients that learned of it an hour ago, unless nobody looked after
// it until it had ended.
func TestNeverUntrusted(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 0))
		now := epoch
		s := advance(t, State{}, now)
		shown, renewals := s.Current, 0
		heard := s.Trusted // by everybody
		type news struct {
			trusted []byte
			at      time.Time
		}
		var announced []news // within the hour
		for now.Before(epoch.Add(3 * 365 * day)) {
			gap := time.Duration(r.Int64N(int64(25 * day)))
			if r.IntN(3) == 0 {
				gap = time.Duration(r.Int64N(int64(2 * time.Hour)))
			}
			now = now.Add(gap)
			for len(announced) > 0 && now.Sub(announced[0].at) >= propagation {
				heard, announced = announced[0].trusted, announced[1:]
			}
			after := advance(t, s, now)
			if !trusts(after.Trusted, s.Current, now) && usable(s.Current, host, now) != nil {
				t.Fatalf("seed %d: what was shown is trusted no more", seed)
			}
			if !bytes.Equal(after.Current.Cert, shown.Cert) {
				renewals++
				if usable(shown, host, now) != nil && !trusts(heard, after.Current, now) {
					t.Fatalf("seed %d: a successor is shown that was not announced", seed)
				}
			}
			if n := len(certificates(after.Trusted)); n > 4 {
				t.Fatalf("seed %d: %d certificates are trusted", seed, n)
			}
			switch r.IntN(5) {
			case 0: // ended before it wrote anything
			case 1: // wrote the Secret alone
				s.Current, s.Next = after.Current, after.Next
			default:
				s = after
			}
			shown = s.Current
			announced = append(announced, news{s.Trusted, now})
		}
		if renewals < 10 {
			t.Errorf("seed %d: %d renewals in three years", seed, renewals)
		}
	}
}

func same(a, b State) bool {
	return bytes.Equal(a.Current.Cert, b.Current.Cert) && bytes.Equal(a.Current.Key, b.Current.Key) &&
		bytes.Equal(a.Next.Cert, b.Next.Cert) && bytes.Equal(a.Next.Key, b.Next.Key) && bytes.Equal(a.Trusted, b.Trusted)
}

func must(p Pair, err error) Pair {
	if err != nil {
		panic(err)
	}
	return p
}
