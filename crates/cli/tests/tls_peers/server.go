// Answers over TLS with the version that it was asked by.
package main

import (
	"fmt"
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
	answer := func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) }
	panic(http.ServeTLS(listener, http.HandlerFunc(answer), os.Args[1], os.Args[2]))
}
