//! Arguments that are wrong, and the help that was asked for: what is printed, and the exit code.
//!
//! Who comes from curl, wrk, hey, oha, h2load or k6 types the flags of those. The nearest name of ours, which clap would offer,
//! misleads then, so the flag that does the same is named instead.

use std::io::{self, IsTerminal, Write};

use clap::CommandFactory;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::cli::Cli;
use crate::failure::Code;
use crate::output;

/// Prints it where it belongs, and gives the exit code.
pub(crate) fn report(error: clap::Error) -> u8 {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut error = of_hey(&args).unwrap_or(error);
    if error.use_stderr() {
        name_ours(&mut error, &command(&args));
        name_feature(&mut error);
        // If stderr is closed, the exit code still tells.
        let _ = io::stderr().write_all(rendered(&error, &io::stderr()).as_bytes());
        return Code::Usage as u8;
    }
    // It was asked for, so it is a result.
    output::print(rendered(&error, &io::stdout()).as_bytes()).map_or_else(|failure| failure.report(), |()| 0)
}

fn rendered(error: &clap::Error, to: &impl IsTerminal) -> String {
    let text = error.render();
    if output::is_coloured(to) { text.ansi().to_string() } else { text.to_string() }
}

/// Offers the flag of this command for one of another.
fn name_ours(error: &mut clap::Error, command: &str) {
    if error.kind() != ErrorKind::UnknownArgument {
        return;
    }
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return };
    let of_command = TIPS.iter().filter(|(commands, _)| commands.contains(&command));
    let mut tips = of_command.flat_map(|(_, tips)| *tips);
    let Some((_, tip)) = tips.find(|(flags, _)| flags.contains(&flag.as_str())) else { return };
    error.remove(ContextKind::SuggestedArg);
    error.remove(ContextKind::TrailingArg);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(*tip)]));
}

/// The command among the arguments: options of all commands may stand before it, and some have commands of their own.
fn command(args: &[String]) -> String {
    let mut words = args.iter().filter(|word| !word.starts_with('-'));
    let first = words.next().cloned().unwrap_or_default();
    match (first.as_str(), words.next()) {
        ("lab", Some(second)) => format!("lab {second}"),
        _ => first,
    }
}

/// The error for a long flag of hey, which has one dash: clap would read it as short ones.
fn of_hey(args: &[String]) -> Option<clap::Error> {
    if !matches!(command(args).as_str(), "load" | "ab") {
        return None;
    }
    let mut known = HEY.iter().filter(|(flag, _)| args.iter().any(|word| word == flag));
    let (flag, tip) = known.next()?;
    let mut error = clap::Error::new(ErrorKind::UnknownArgument).with_cmd(&Cli::command());
    error.insert(ContextKind::InvalidArg, ContextValue::String((*flag).to_owned()));
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(*tip)]));
    Some(error)
}

/// Says of a command that this program was built without how to have it.
fn name_feature(error: &mut clap::Error) {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return;
    }
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else { return };
    // One of 'lab' has a name of its own.
    let named = if name == "udp-load" { "udp" } else { name.as_str() };
    let Some((feature, _)) = OPTIONAL.iter().find(|(feature, _)| *feature == named) else { return };
    let tip = format!(
        "'{feature}' is a feature that this program was built without; build it with '--features full', or '--features \
         {feature}'"
    );
    error.remove(ContextKind::SuggestedSubcommand);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
}

/// A line for the help that names the commands which this program was built without; empty if it has all.
pub(crate) fn absent_commands() -> String {
    let absent: Vec<_> = OPTIONAL.iter().filter(|(_, built)| !built).map(|(name, _)| *name).collect();
    if absent.is_empty() {
        return String::new();
    }
    format!("\nCommands that '--features full' adds when this program is built: {}", absent.join(", "))
}

/// The commands that are features, by one name, and whether this program has them.
const OPTIONAL: [(&str, bool); 5] = [
    ("swarm", cfg!(feature = "swarm")),
    ("ipc", cfg!(feature = "ipc")),
    ("udp", cfg!(feature = "udp")),
    ("completions", cfg!(feature = "completions")),
    ("man", cfg!(feature = "man")),
];

/// A flag of other tools under its names, and what says the same here.
type Tip = (&'static [&'static str], &'static str);

/// The tips of each command.
const TIPS: [(&[&str], &[Tip]); 9] = [
    (&["load"], OF_LOADS),
    (&["ab", "compare"], OF_COMPARISONS),
    (&["ab"], OF_TURNS),
    (&["pipe"], OF_PIPES),
    (&["probe"], OF_PROBES),
    (&["lab udp-load"], OF_DATAGRAMS),
    (&["get", "post", "put", "patch", "delete", "head", "options", "query", "request"], OF_CALLS),
    (&["put", "patch", "delete", "head", "options", "query", "request"], OF_OTHER_CALLS),
    (&["serve"], OF_SERVERS),
];

/// Flags of wrk, hey, oha, ab, h2load and k6.
const OF_LOADS: &[Tip] = &[
    (
        &["-t", "--threads"],
        "threads are loops here: --loops N; the longest wait for an answer is --timeout TIME",
    ),
    (&["-z"], "how long to measure is -d or --duration, such as -d 10s"),
    (&["-D"], "how long to measure is -d or --duration; a body of a file is --data @FILE"),
    (
        &["-R", "-q", "--qps", "--rps"],
        "a rate is --rate N, in requests a second; without one each connection sends its next request when an answer has come",
    ),
    (&["-r"], "a rate is --rate N; redirects are not followed, so that each answer is the server's own"),
    (&["--redirect"], "leave it out; redirects are not followed, so that each answer is the server's own"),
    (
        &["-4", "--ipv4", "-6", "--ipv6"],
        "where to connect to instead of the URL's host is --via, such as --via tcp:127.0.0.1:8080",
    ),
    (&["--host"], "the host is a header field: -H 'Host: example.com'; where to connect to is --via"),
    (&["--http-version"], "HTTP/2 is --http2; without it HTTP/1.1 is spoken where http:// is"),
    (&["--max-concurrent-streams"], "streams under way on a connection are --streams N, with --http2"),
    (&["--requests-per-connection"], "a new connection after so many requests is --new-connection-every N"),
    (
        &[
            "--header-table-size",
            "--encoder-header-table-size",
            "-w",
            "--window-bits",
            "-W",
            "--connection-window-bits",
        ],
        "leave it out; windows and tables of HTTP/2 have their usual sizes",
    ),
    (
        &["--burst-delay", "--burst-rate"],
        "no bursts are made; a rate is --rate N, and arrivals at random are --poisson",
    ),
    (
        &["--latency-correction"],
        "leave it out; with --rate latencies count from when a request should have left",
    ),
    (&["--disable-compression"], "leave it out; a coding is asked for by -H 'Accept-Encoding: gzip' alone"),
    (&["-F", "-Z"], "a body is --data TEXT or --data @FILE, and its type is -H 'Content-Type: ...'"),
    (&["-p"], "what is under way on a connection is --streams with --http2, else --depth"),
    (
        &["-T"],
        "the longest wait for an answer is --timeout; a content type is -H 'Content-Type: application/json'",
    ),
    (&["-A", "-U"], "a header field is -H, such as -H 'Accept: text/html'"),
    (&["-b", "--body", "--data-binary", "--data-raw"], "a body is --data TEXT, or --data @FILE"),
    (&["-X", "--request"], "the method is -m or --method"),
    (&["--no-tui"], "a load without the screen is --no-screen"),
    (
        &["--latency", "-s"],
        "leave it out; latencies are always printed, and what is sent by a script is --script FILE",
    ),
    (&["--h1", "--http1.1"], "leave it out; HTTP/1.1 is spoken unless --http2 is given"),
    (&["--max-time"], "the longest wait for an answer is --timeout"),
    (
        &["-j", "-o", "--output", "--output-format"],
        "the result as JSON is --json FILE, or --json - for stdout",
    ),
    (&["--disable-keepalive"], "a connection for each request is -H 'Connection: close'"),
    (&["-a"], "give the field itself, such as -H 'Authorization: Basic dTpw'"),
    (&["-x", "--proxy"], "there are no proxies; --via names where to connect to instead of the URL's host"),
    (&["-i"], "URLs of a file are --urls FILE"),
    (&["-u", "--vus"], "users are connections here: -c N, each with one request under way"),
    (&["--iterations"], "how many requests to send is -n or --requests"),
    (&["--stage"], "a rate that changes is --ramp A:B, or --step A:B:N"),
    (&["--out"], "figures over time are --intervals FILE, one line of JSON for each interval"),
    (&["--summary-export"], "the result as JSON is --json FILE"),
    (&["--warm-up-time"], "load that is in no figure is --warm-up, such as --warm-up 5s"),
    (&["--log-file"], "figures over time are --intervals FILE"),
    (&["--unix-socket"], "the wire is named by --via, such as --via unix:/run/app.sock"),
];

/// Flags of load generators, for commands that send their requests by number.
const OF_PIPES: &[Tip] = &[
    (
        &["-t", "--threads"],
        "threads are loops here: --loops N; the longest silence of the server is --timeout TIME",
    ),
    (&["-p", "--pipeline"], "requests under way on a connection are --depth N"),
    (&["-d", "--duration", "-z", "-D"], "requests are counted here: -n N; 'anywire load' sends for a time"),
    (
        &["-R", "-q", "--rate", "--qps", "--rps"],
        "each leaves as soon as it can; 'anywire load' sends at a rate",
    ),
    (&["-X", "--request"], "the method is -m or --method"),
    (&["--body", "--data-binary"], "a body is --data TEXT, or --data @FILE"),
];

const OF_PROBES: &[Tip] = &[
    (&["-t", "--max-time"], "the longest wait for an answer is --timeout TIME"),
    (&["-p"], "the server's process is --pid N; requests in one write are --pipeline N"),
    (
        &["-d", "--duration", "-z", "-R", "-q", "--rate"],
        "a few hundred requests are made; 'anywire load' sends for a time and at a rate",
    ),
    (&["-X", "--request", "-m", "--method", "--data"], "all requests are GET and HEAD, which change nothing"),
];

const OF_TURNS: &[Tip] = &[(
    &["-t", "--threads"],
    "threads are loops here: --loops N; the longest wait for an answer is --timeout TIME",
)];

/// Flags of iperf3 and others.
const OF_DATAGRAMS: &[Tip] = &[
    (
        &["-b", "--bandwidth", "--bitrate"],
        "how many leave is --rate N, in datagrams a second, of --bytes N each",
    ),
    (&["-l", "--length", "--len", "-s", "--size"], "the length of a datagram is --bytes N"),
    (&["-t", "--time"], "how long to send is --duration TIME"),
    (&["-P", "--parallel"], "flows are --flows N"),
];

/// Long flags of hey, with the one dash that it has.
const HEY: &[(&str, &str)] = &[
    ("-host", "the host is a header field: -H 'Host: example.com'; where to connect to is --via"),
    ("-cpus", "threads are loops here: --loops N"),
    ("-h2", "HTTP/2 is --http2"),
    ("-disable-compression", "leave it out; a coding is asked for by -H 'Accept-Encoding: gzip' alone"),
    ("-disable-keepalive", "a connection for each request is -H 'Connection: close'"),
    ("-disable-redirects", "leave it out; redirects are not followed"),
];

/// Flags of load generators, for commands that load several servers.
const OF_COMPARISONS: &[Tip] = &[
    (&["-R", "-q", "--qps", "--rps"], "a rate is --rate N, in requests a second, the same for each server"),
    (
        &["-n", "--requests"],
        "how long each is measured in each round is -d or --duration, and how often --rounds",
    ),
];

/// Flags of curl.
const OF_CALLS: &[Tip] = &[
    (&["--data-ascii"], "a body is -d TEXT, or -d @FILE, which is sent as it is"),
    (&["-e", "--referer"], "a header field is -H, such as -H 'Referer: http://localhost/'"),
    (&["--oauth2-bearer"], "give the field itself, such as -H 'Authorization: Bearer TOKEN'"),
    (&["--basic"], "leave it out; -u logs in by basic authentication"),
    (&["--digest", "--ntlm", "--negotiate", "--anyauth"], "-u logs in by basic authentication alone"),
    (&["-n", "--netrc"], "no file of passwords is read; -u USER asks for the password"),
    (&["--location-trusted"], "credentials go to the host of the URL alone, also with -L"),
    (
        &["--post301", "--post302", "--post303"],
        "after such a redirect -L sends GET; call the URL that -i shows",
    ),
    (&["-T", "--upload-file"], "a file is sent by 'anywire put URL -d @FILE'"),
    (&["--http2-prior-knowledge"], "HTTP/2 without TLS is --http2 with an http URL"),
    (&["--http1.1"], "HTTP/1.1 alone is --http1"),
    (&["-0", "--http1.0", "--http3", "--http3-only"], "HTTP/1.1 and HTTP/2 are spoken: --http1, --http2"),
    (&["--tlsv1.2", "--tlsv1.3"], "the oldest version of TLS is --tls-min, such as --tls-min 1.3"),
    (
        &["--unix-socket", "--abstract-unix-socket"],
        "the wire is named by --via, such as --via unix:/run/app.sock",
    ),
    (&["-F", "--form"], "forms with files are not made; give the body by -d, and its type by -H"),
    (&["--create-dirs"], "make the folder first; -o names a file in it"),
    (&["--output-dir"], "name the folder with the file by -o, or go there first"),
    (&["--remote-name-all"], "-O is for all URLs"),
    (
        &["-J", "--remote-header-name"],
        "the server names no files; name the file by -o, or as its URL ends by -O",
    ),
    (&["--url-query"], "give the pair by -d or --data-urlencode, and -G"),
    (&["-D", "--dump-header"], "the head is printed before the body with -i, and to stderr with -v"),
    (&["-r", "--range"], "ask for a part by its field: -H 'Range: bytes=0-99'"),
    (
        &["--compressed"],
        "an answer is printed as it came; a coding is asked for by -H 'Accept-Encoding: gzip'",
    ),
    (&["--trace-ascii", "--trace-time"], "-v shows both heads, and --trace where the time went"),
    (&["-U", "--proxy-user"], "write the user into the URL: --proxy http://USER:PASSWORD@HOST:PORT"),
    (&["--socks5", "--socks5-hostname"], "the proxy is --proxy socks5://HOST:PORT, or socks5h://"),
    (&["-#", "--progress-bar"], "leave it out; a bar is shown at a terminal while a file is written"),
    (&["-g", "--globoff"], "leave it out; nothing in a URL is expanded"),
    (&["--url"], "write the URL by itself"),
    (&["--fail-early"], "each URL is called; the exit code is that of the first that failed"),
    (&["-Z", "--parallel"], "URLs are called in order; 'anywire load' calls one URL many times at once"),
    (
        &["-4", "--ipv4", "-6", "--ipv6", "--interface"],
        "where to connect to instead of the URL's host is --via, such as --via tcp:127.0.0.1:8080",
    ),
    (
        &["--retry-delay", "--retry-max-time", "--retry-all-errors", "--retry-connrefused"],
        "--retry N pauses longer each time, as Retry-After says; connects that were refused are repeated, too",
    ),
];

/// Flags of curl that `get` and `post` have alone.
const OF_OTHER_CALLS: &[Tip] =
    &[(&["-X", "--request"], "the command is the method; any other is 'anywire request METHOD URL'")];

/// Flags of http.server of Python, caddy, miniserve and others.
const OF_SERVERS: &[Tip] = &[
    (
        &["-p", "--port", "-b", "--bind", "--addr", "--address", "--host", "-i", "--interfaces"],
        "where to listen is -l or --listen, such as -l tcp:0.0.0.0:8000",
    ),
    (&["-d", "--directory", "--root", "-r"], "the files of a directory are served by --dir DIR"),
    (&["-t", "--threads", "-w", "--workers"], "threads are loops here: --loops N"),
];

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    /// A tip for a flag that the command has would never be shown.
    #[test]
    fn tips_are_for_flags_that_are_not_ours() {
        for (commands, tips) in TIPS {
            for command in commands {
                let url = match *command {
                    "serve" => None,
                    "lab udp-load" => Some("udp:127.0.0.1:9"),
                    _ => Some("localhost"),
                };
                for flag in tips.iter().flat_map(|(flags, _)| *flags) {
                    let words = ["anywire"].into_iter().chain(command.split(' ')).chain(url).chain([*flag]);
                    let parsed = Cli::try_parse_from(words);
                    let kind = parsed.map(|_| ()).map_err(|error| error.kind());
                    assert_eq!(kind, Err(ErrorKind::UnknownArgument), "{command} {flag}");
                }
            }
        }
    }

    #[test]
    fn the_command_is_found_behind_options_and_within_another() {
        let found = |line: &str| command(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(found("-v load --rps 5"), "load");
        assert_eq!(found("lab -v udp-load -t 5"), "lab udp-load");
        assert_eq!(found("get load"), "get");
    }

    #[test]
    fn flags_of_hey_with_one_dash_are_not_read_as_short_ones() {
        let found = |line: &str| of_hey(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        for (flag, tip) in HEY {
            let error = found(&format!("load {flag} 2 localhost")).expect("it is known");
            assert!(error.render().to_string().contains(tip), "{flag}");
        }
        assert!(found("load -c 2 localhost").is_none() && found("get -host a").is_none());
    }

    /// Each feature that adds a command is listed, and its command has its name.
    #[test]
    fn commands_that_are_features_are_known() {
        let cli = Cli::command();
        for (name, built) in OPTIONAL {
            assert_eq!(cli.find_subcommand(name).is_some(), built, "{name}");
        }
        assert_eq!(absent_commands(), "", "the tests are for the whole command");
    }

    /// The flags that the tips name are there.
    #[test]
    fn tips_name_flags_that_are_ours() {
        let cli = Cli::command();
        for (commands, tips) in TIPS {
            let mut words = commands[0].split(' ');
            let command = words.try_fold(&cli, |cli, word| cli.find_subcommand(word)).expect("a command");
            for (_, tip) in tips {
                let named = tip.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
                for long in named.filter_map(|word| word.strip_prefix("--")) {
                    assert!(
                        command.get_arguments().any(|ours| ours.get_long() == Some(long)),
                        "--{long} in {tip:?}"
                    );
                }
            }
        }
    }

    /// Commands in the last cells of the rows of a page, without what the shell does with their result.
    fn commands(page: &str) -> impl Iterator<Item = &str> {
        let lines = page.lines().filter(|line| line.starts_with("| "));
        let cells = lines.filter_map(|line| line.strip_suffix("` |")?.rsplit_once("| `"));
        cells.map(|(_, command)| command.split(" \\| ").next().unwrap_or_default())
    }

    /// The words of a command, as a shell takes them that knows single quotes alone.
    fn words(command: &str) -> Vec<String> {
        let (mut words, mut word, mut quoted) = (Vec::new(), None::<String>, false);
        for letter in command.chars() {
            match letter {
                '\'' => {
                    quoted = !quoted;
                    word.get_or_insert_default();
                }
                ' ' if !quoted => words.extend(word.take()),
                letter => word.get_or_insert_default().push(letter),
            }
        }
        words.extend(word);
        words
    }

    #[test]
    fn each_command_beside_another_load_tool_is_understood() {
        let page = include_str!("../../../docs/from-load-tools.md");
        let ours: Vec<_> = commands(page).filter(|command| command.starts_with("anywire ")).collect();
        assert!(ours.len() > 60, "the page has {} commands", ours.len());
        for command in ours {
            if let Err(error) = Cli::try_parse_from(words(command)) {
                panic!("{command}: {error}");
            }
        }
    }

    #[test]
    fn commands_of_a_page_are_found_and_split_into_words() {
        let page =
            "| a | b |\n| --- | --- |\n| `x \\| y` | `anywire load 'a b'c --json - \\| jq .x` |\ntext\n";
        let found: Vec<_> = commands(page).map(words).collect();
        assert_eq!(found, [["anywire", "load", "a bc", "--json", "-"]]);
    }
}
