// Package browser tries the page in a real browser, headless Chromium, on books that are made here. Its tests are
// behind the build tag "page": `make test-page` runs them, and `make screenshot` writes the pictures in docs.
package browser
