//! What stands below the options of a call: examples, and the exit codes.

/// Below the help that fits a screen: the first examples, and the codes in short.
pub(super) fn short(examples: &str) -> String {
    let lines: Vec<&str> = examples.lines().take(EXAMPLES_IN_SHORT).collect();
    let name = examples.split_whitespace().nth(1).unwrap_or_default();
    format!(
        "Examples:\n{}\n\n{CODES_IN_SHORT}\n'anywire help {name}' shows all options, examples and exit codes.",
        lines.join("\n")
    )
}

/// Below the help with all options.
pub(super) fn long(examples: &str) -> String {
    format!("Examples:\n{examples}\n\n{CODES}")
}

/// How many examples a screen has room for.
const EXAMPLES_IN_SHORT: usize = 5;

pub(super) const GET: &str = "  \
  anywire get localhost:8080/json
  anywire get -v localhost:8080             both heads on stderr; -I the head alone
  anywire get -L --retry 3 -O https://example.com/file.tar.gz
  anywire get -i /json --via unix:/run/app.sock
  anywire get -f -m 5 -o page.html http://127.0.0.1:8080/ -H 'Accept: text/html'
  anywire get localhost:8080/a localhost:8080/b -o a -o b
  anywire get -G localhost:8080/search --data-urlencode 'q=green tea'
  anywire get --http2 localhost:8080        HTTP/2 without TLS
  anywire get -v https://localhost:8443/ --cacert root.pem
  anywire get http://127.0.0.1:8080/bytes/1000000 -o file --timeout 5s";

pub(super) const POST: &str = "  \
  anywire post localhost:8080/echo -d 'any text'
  anywire post localhost:8080/echo --json '{\"item\": \"tea\"}'
  anywire post localhost:8080/echo -d name=Ada --data-urlencode 'says=tea & cake'
  tar c . | anywire post /echo --via unix:/run/app.sock -d @- -o copy.tar
  anywire post localhost:8080/echo -d @file.json -H 'Content-Type: application/json'";

pub(super) const PUT: &str = "  \
  anywire put localhost:8080/item/7 --json '{\"item\": \"tea\"}'
  anywire put localhost:8080/copy.tar -d @copy.tar -H 'Content-Type: application/x-tar'";

pub(super) const PATCH: &str = "  \
  anywire patch localhost:8080/item/7 --json '{\"count\": 2}'";

pub(super) const DELETE: &str = "  \
  anywire delete localhost:8080/item/7
  anywire delete -f localhost:8080/item/7 localhost:8080/item/8";

pub(super) const HEAD: &str = "  \
  anywire head localhost:8080/json
  anywire head -H 'Accept-Encoding: gzip' localhost:8080/json";

pub(super) const OPTIONS: &str = "  \
  anywire options -i localhost:8080/json
  anywire options -i localhost:8080         the server as a whole (OPTIONS *)";

pub(super) const QUERY: &str = "  \
  anywire query localhost:8080/orders --json '{\"item\": \"tea\"}'";

pub(super) const REQUEST: &str = "  \
  anywire request PURGE localhost:8080/page
  anywire request TRACE localhost:8080/ -H 'Max-Forwards: 0'";

const CODES_IN_SHORT: &str = "\
Exit codes are curl's: 0 done, 2 bad arguments, 6 host not resolved, 7 not connected, 18 cut short,
22 a status of 400 or more with --fail, 23 not written, 26 data not read, 28 too late, 35 TLS
failed, 47 too many redirects, 52 no response, 56 broken off or no good, 60 certificate.";

const CODES: &str = "\
Exit codes, which are curl's where it has one:
  0   done
  1   the call could not be made
  2   bad arguments
  5   the host of the proxy was not resolved
  6   the host was not resolved
  7   not connected
  16  the connection of HTTP/2 ended by an error
  18  the response was cut short
  22  a status of 400 or more, with --fail or --fail-with-body
  23  the response could not be written
  26  the data could not be read
  28  too late (--timeout, --connect-timeout)
  33  a download cannot go on where it ended (--continue-at)
  35  the TLS handshake failed
  47  too many redirects, or redirects in a circle
  52  the server closed without a response
  56  the connection broke, or the response is no good: not HTTP, over a limit on heads, or interim
      responses (1xx) and no final one
  58  --cert or --key is no good
  60  the server's certificate is not acceptable
  65  the data would have to be sent again, and are too large to be kept
  77  --cacert is no good
  90  the server's key is not pinned
  92  the stream of HTTP/2 ended by an error
  97  a proxy of SOCKS made no connection
With several URLs it is the code of the first that failed; the others are called all the same.";
