//go:build page

package browser

import (
	"bytes"
	"context"
	"flag"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

var pictures = flag.String("pictures", "", "folder to keep the pictures of the page in")

// TestPictures takes the pictures that the README shows; `make screenshot` keeps them.
func TestPictures(t *testing.T) {
	dir := *pictures
	if dir == "" {
		dir = t.TempDir()
	}
	browser := chromium(t)
	for _, c := range []struct {
		name, theme, hash string
		width             int64
	}{
		{"page", "light", "", 1200},
		{"page-dark", "dark", "", 1200},
	} {
		t.Run(c.name, func(t *testing.T) {
			picture(t, browser, filepath.Join(dir, c.name+".png"), c.theme, c.hash,
				c.width)
		})
	}
}

// picture writes a picture of a whole page, as long as it is, with one pod unfolded.
func picture(t *testing.T, browser context.Context, file, theme, hash string, width int64) {
	p := newTab(t, browser, width, 800)
	p.prefers(theme)
	p.open(cluster(t), hash)
	p.run(`[...document.querySelectorAll(".pod .toggle")].find((e) => e.textContent === "speech/serving-x2lk")?.click()`)
	shot, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, shot, 0o644); err != nil {
		t.Fatal(err)
	}
	image, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		t.Fatal(err)
	}
	colours := map[[3]uint32]bool{}
	for x := range image.Bounds().Dx() {
		for y := range image.Bounds().Dy() {
			r, g, b, _ := image.At(x, y).RGBA()
			colours[[3]uint32{r, g, b}] = true
		}
	}
	if len(colours) < 100 || image.Bounds().Dx() != int(width) {
		t.Errorf("%d colours, %v: this is no picture of the page", len(colours), image.Bounds())
	}
}
