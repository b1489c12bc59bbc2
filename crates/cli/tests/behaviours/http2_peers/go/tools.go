//go:build tools

// Package http2 keeps the versions of what is built beside the client.
package http2

import _ "github.com/summerwind/h2spec/cmd/h2spec"
