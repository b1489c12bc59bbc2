//! A script in the form in which it is run. Lines keep their numbers, so that a complaint can be found in the script.

/// Whose packetdrill a script is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Google's, on Linux.
    Linux,
    /// That of nplab, on FreeBSD.
    FreeBsd,
}

/// What is not compared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leniency {
    /// What it is called in a verdict.
    pub(crate) name: &'static str,
    /// PSH of our segments is hidden, and left out of the script.
    pub(crate) push: bool,
    /// The window field of our segments.
    pub(crate) windows: bool,
}

impl Leniency {
    pub(crate) const NONE: Self = Self { name: "", push: false, windows: false };
}

/// The text to run.
pub(super) fn translate(text: &str, dialect: Dialect, leniency: Leniency) -> String {
    let mut translated = String::with_capacity(text.len());
    // Within a block %{ .. }%: packetdrill would ask the system, not us, for the tcp_info in it.
    let mut in_code = false;
    // Within a part for what FreeBSD does where a part beside it says what the RFC says.
    let mut is_left_out = false;
    for line in text.lines() {
        let line = line.trim_end();
        let mut kept = Some(line.to_owned());
        if !in_code && !line.starts_with("//") && outside_of_commands(line).contains("%{") {
            in_code = true;
        }
        if in_code {
            in_code = !line.contains("}%");
            kept = None;
        } else if dialect == Dialect::FreeBsd {
            if let Some(condition) = line.strip_prefix("#ifdef") {
                (is_left_out, kept) = (condition.trim() != "STANDARD", None);
            } else if line.starts_with("#endif") {
                (is_left_out, kept) = (false, None);
            } else if is_left_out || asks_the_system(line) {
                kept = None;
            }
        }
        if let Some(mut line) = kept {
            if let Some(at) = outbound(&line) {
                let (before, packet) = line.split_at(at);
                let mut packet = packet.to_owned();
                if dialect == Dialect::FreeBsd {
                    packet = with_options_in_our_order(&packet);
                }
                if leniency.push {
                    packet = without_push(&packet);
                }
                if leniency.windows {
                    packet = without_window(&packet);
                }
                line = format!("{before}{packet}");
            }
            translated.push_str(&line);
        }
        translated.push('\n');
    }
    translated
}

/// A line up to the first command in backticks.
fn outside_of_commands(line: &str) -> &str {
    line.split('`').next().unwrap_or_default()
}

/// Where the packet begins behind the `>` of a line with one of ours.
fn outbound(line: &str) -> Option<usize> {
    let at = line.find(" > ").or_else(|| line.find("\t> "))?;
    let before = &line[..at];
    let is_a_time = !before.trim().is_empty() && !before.contains(['<', '`', '(', '/']);
    is_a_time.then_some(at + 3)
}

/// Lines of FreeBSD's scripts that ask the system, not us: its tools, and sizes of its buffers.
fn asks_the_system(line: &str) -> bool {
    let asks = ["`sockstat", "`tcpdrop", "`setkey", "SO_RCVBUF", "SO_SNDBUF"];
    asks.iter().any(|asks| line.contains(asks))
}

/// Leaves PSH out of the flags that a packet begins with.
fn without_push(packet: &str) -> String {
    let start = packet.len() - packet.trim_start().len();
    let end = packet[start..].find(char::is_whitespace).map_or(packet.len(), |at| start + at);
    let flags: String = packet[start..end].chars().filter(|flag| *flag != 'P').collect();
    format!("{}{flags}{}", &packet[..start], &packet[end..])
}

/// Leaves the window out of a packet: what is not named is not compared.
fn without_window(packet: &str) -> String {
    let Some(at) = packet.find(" win ") else { return packet.to_owned() };
    let rest = packet[at + " win ".len()..].trim_start();
    let rest = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
    format!("{}{rest}", &packet[..at])
}

/// The options of a SYN in the order in which we send them, with our padding, and the shift of our window in place of FreeBSD's: their
/// order is every stack's own (RFC 9293 MUST-64).
fn with_options_in_our_order(packet: &str) -> String {
    let Some((before, rest)) = packet.split_once('<') else { return packet.to_owned() };
    let Some((options, behind)) = rest.split_once('>') else { return packet.to_owned() };
    let of = |name: &str| options.split(',').map(str::trim).find(|option| option.starts_with(name));
    let Some(mss) = of("mss") else { return packet.to_owned() };
    let mut list = vec![mss.to_owned()];
    match (of("sackOK"), of("TS")) {
        (Some(_), Some(timestamps)) => list.extend(["sackOK".to_owned(), timestamps.to_owned()]),
        (Some(_), None) => list.extend(["nop", "nop", "sackOK"].map(str::to_owned)),
        (None, Some(timestamps)) => list.extend(["nop".to_owned(), "nop".to_owned(), timestamps.to_owned()]),
        (None, None) => {}
    }
    if let Some(scale) = of("wscale") {
        list.push("nop".to_owned());
        list.push(if scale == FREEBSD_SCALE { OUR_SCALE.to_owned() } else { scale.to_owned() });
    }
    // The others stay behind, and make a difference.
    let known = ["mss", "sackOK", "TS", "wscale", "nop", "eol"];
    let others =
        options.split(',').map(str::trim).filter(|option| !known.iter().any(|name| option.starts_with(name)));
    list.extend(others.map(str::to_owned));
    format!("{before}<{}>{behind}", list.join(","))
}

/// What FreeBSD offers by default, from `kern.ipc.maxsockbuf`, and what we do for a window of 64 KiB.
const FREEBSD_SCALE: &str = "wscale 6";
const OUR_SCALE: &str = "wscale 1";

#[cfg(test)]
mod tests {
    use super::*;

    fn freebsd(text: &str) -> String {
        translate(text, Dialect::FreeBsd, Leniency::NONE)
    }

    #[test]
    fn lines_keep_their_numbers() {
        let text = "+0 > . 1:1(0)\n+0 %{ assert\n a }%\n#ifdef FreeBSD\n+0 < S\n#endif\n// a comment\n";
        for dialect in [Dialect::Linux, Dialect::FreeBsd] {
            assert_eq!(translate(text, dialect, PSH).lines().count(), text.lines().count());
        }
    }

    const PSH: Leniency = Leniency { name: "", push: true, windows: false };

    #[test]
    fn blocks_of_code_are_left_out_and_commands_are_not() {
        let text =
            "+0 %{ assert tcpi_state == 1 }%\n+0 `echo %{`\n   +0.1 %{\n print(1)\n}%\n+0 close(3) = 0\n";
        let kept = translate(text, Dialect::Linux, Leniency::NONE);
        assert_eq!(kept, "\n+0 `echo %{`\n\n\n\n+0 close(3) = 0\n");
    }

    #[test]
    fn only_our_packets_lose_what_is_not_compared() {
        let (push, windows) = (PSH, Leniency { name: "", push: false, windows: true });
        let ours = "+0.00 > P. 1:101(100) ack 1 win 65535 <nop,nop,TS val 1 ecr 2>";
        assert_eq!(
            translate(ours, Dialect::Linux, push),
            "+0.00 > . 1:101(100) ack 1 win 65535 <nop,nop,TS val 1 ecr 2>\n"
        );
        assert_eq!(
            translate(ours, Dialect::Linux, windows),
            "+0.00 > P. 1:101(100) ack 1 <nop,nop,TS val 1 ecr 2>\n"
        );
        for other in ["+0 < P. 1:1(0) win 1", "+0 `test 1 > P`", "// a > P. win 7", "+0 read(4, ..., 9) = 9"]
        {
            assert_eq!(translate(other, Dialect::Linux, push), format!("{other}\n"));
            assert_eq!(translate(other, Dialect::Linux, windows), format!("{other}\n"));
        }
    }

    #[test]
    fn what_the_rfc_says_counts() {
        let text = "#ifdef STANDARD\n+0 > R. 2:2(0)\n#endif\n#ifdef FreeBSD\n+0 > . 2:2(0)\n#endif\n";
        assert_eq!(freebsd(text), "\n+0 > R. 2:2(0)\n\n\n\n\n");
        assert_eq!(
            freebsd("+0 getsockopt(3, SOL_SOCKET, SO_RCVBUF, [65536], [4]) = 0\n+0 `tcpdrop -s X`"),
            "\n\n"
        );
    }

    #[test]
    fn options_of_a_syn_are_in_our_order() {
        let cases = [
            ("mss 1460,sackOK,eol,eol", "mss 1460,nop,nop,sackOK"),
            (
                "mss 1460,nop,wscale 6,sackOK,TS val 100 ecr 0",
                "mss 1460,sackOK,TS val 100 ecr 0,nop,wscale 1",
            ),
            ("mss 1460,nop,wscale 14", "mss 1460,nop,wscale 14"),
            ("mss 1460", "mss 1460"),
            ("nop,nop,sack 1:2", "nop,nop,sack 1:2"),
        ];
        for (theirs, ours) in cases {
            assert_eq!(freebsd(&format!("+0 > S 0:0(0) <{theirs}>")), format!("+0 > S 0:0(0) <{ours}>\n"));
            let inbound = format!("+0 < S 0:0(0) <{theirs}>");
            assert_eq!(freebsd(&inbound), format!("{inbound}\n"), "the peer's are its own");
        }
    }
}
