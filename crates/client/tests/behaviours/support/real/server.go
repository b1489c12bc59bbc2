// A server of HTTP/2 in clear text: files of the folder that it is started with, and POST comes back with its trailers. With a
// certificate and a key behind the folder, a server of both versions over TLS. `/version` says by which it was asked.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	files := http.FileServer(http.Dir(os.Args[1]))
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			fmt.Fprint(w, r.Proto)
			return
		}
		if r.Method != "POST" {
			files.ServeHTTP(w, r)
			return
		}
		w.WriteHeader(200)
		io.Copy(flushing{w}, r.Body)
		for name, values := range r.Trailer {
			w.Header()[http.TrailerPrefix+name] = values
		}
	})
	if len(os.Args) > 2 {
		panic(http.ServeTLS(listener, handler, os.Args[2], os.Args[3]))
	}
	server := http.Server{Handler: handler, Protocols: new(http.Protocols)}
	server.Protocols.SetUnencryptedHTTP2(true)
	panic(server.Serve(listener))
}

// Sends each piece when it is there.
type flushing struct{ http.ResponseWriter }

func (to flushing) Write(piece []byte) (int, error) {
	count, err := to.ResponseWriter.Write(piece)
	to.ResponseWriter.(http.Flusher).Flush()
	return count, err
}
