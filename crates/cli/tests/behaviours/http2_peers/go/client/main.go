// A client of HTTP/2 in clear text: bodies both ways, trailers, a request that is cancelled, and a server that goes away
// in the middle. Its argument is the URL of `anywire serve`.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"

	"golang.org/x/net/http2"
)

const total = 100 << 20

var base = os.Args[1]

var dials atomic.Int32

var client = &http.Client{Transport: &http2.Transport{
	AllowHTTP: true,
	DialTLSContext: func(ctx context.Context, network, address string, _ *tls.Config) (net.Conn, error) {
		dials.Add(1)
		return new(net.Dialer).DialContext(ctx, network, address)
	},
}}

func main() {
	small()
	echo(1_000_000, func() {})
	echo(total, func() {})
	cancel()
	if dials.Load() != 1 {
		fail("%d connections", dials.Load())
	}
	echo(10<<20, func() {
		fmt.Println("ready")
		bufio.NewReader(os.Stdin).ReadString('\n')
	})
	fmt.Println("done")
}

func small() {
	answer, err := client.Get(base + "/")
	check(err)
	body, err := io.ReadAll(answer.Body)
	check(err)
	if answer.StatusCode != 200 || answer.ProtoMajor != 2 || string(body) != "Hello, World!" {
		fail("%s %s %q", answer.Proto, answer.Status, body)
	}
}

// The body comes back while it goes, and its trailers behind it.
func echo(length int, inTheMiddle func()) {
	body := &source{left: length, half: length / 2, inTheMiddle: inTheMiddle}
	request, err := http.NewRequest("POST", base+"/echo", body)
	check(err)
	request.Trailer = http.Header{"X-Sum": nil}
	body.atEnd = func() { request.Trailer.Set("X-Sum", "7") }
	answer, err := client.Do(request)
	check(err)
	expected := &source{left: length}
	ours, theirs := make([]byte, 65536), make([]byte, 65536)
	for read := 0; ; {
		count, err := answer.Body.Read(theirs)
		io.ReadFull(expected, ours[:count])
		if !bytes.Equal(ours[:count], theirs[:count]) {
			fail("the body differs after %d bytes", read)
		}
		read += count
		if err == io.EOF {
			if read != length {
				fail("%d bytes of %d", read, length)
			}
			break
		}
		check(err)
	}
	if answer.Trailer.Get("X-Sum") != "7" {
		fail("trailers %v", answer.Trailer)
	}
}

func cancel() {
	for range [10]int{} {
		within, leave := context.WithCancel(context.Background())
		request, err := http.NewRequestWithContext(within, "GET", base+fmt.Sprintf("/bytes/%d", total), nil)
		check(err)
		answer, err := client.Do(request)
		check(err)
		_, err = io.ReadFull(answer.Body, make([]byte, 100_000))
		check(err)
		leave()
		small()
	}
}

type source struct {
	at, left, half     int
	inTheMiddle, atEnd func()
}

func (s *source) Read(into []byte) (int, error) {
	if s.left == 0 {
		if s.atEnd != nil {
			s.atEnd()
		}
		return 0, io.EOF
	}
	if len(into) > s.left {
		into = into[:s.left]
	}
	for i := range into {
		into[i] = byte((s.at + i) * 31 % 251)
	}
	s.at += len(into)
	s.left -= len(into)
	if s.inTheMiddle != nil && s.at >= s.half {
		s.inTheMiddle()
		s.inTheMiddle = nil
	}
	return len(into), nil
}

func check(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(1)
}
