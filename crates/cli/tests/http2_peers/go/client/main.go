package main

import _ "golang.org/x/net/http2"

func main() {}
