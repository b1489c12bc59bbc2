//! The flags that packetdrill hands over (`--so_flags`), and what scripts set by `sysctl`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anywire_tcp::{Algorithm, Ecn, Settings};

/// How the stack of this run is set up.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    /// The stack's own addresses.
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) mtu: u16,
    pub(crate) settings: Settings,
    /// Whether packetdrill gets to see the PSH flag. Within RFC 9293 MUST-60 and 61 each stack chooses when to set it. A script
    /// expects Linux's choice in each segment; if the flag is hidden, the script can still check everything else.
    pub(crate) shows_push: bool,
    /// Where the stand-in for `sysctl` writes down what scripts ask of it.
    sysctls: Option<PathBuf>,
}

impl Setup {
    /// From flags such as `address=192.168.0.2,mtu=1500,push=hidden`.
    ///
    /// # Errors
    /// Names the flag and its fault.
    pub(crate) fn parse(flags: &str) -> Result<Self, String> {
        let mut setup =
            Self { addresses: Vec::new(), mtu: 1500, settings: settings(), shows_push: true, sysctls: None };
        for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
            let Some((name, value)) = flag.split_once('=') else {
                return Err(format!("the flag {flag:?} has no value: NAME=VALUE is expected"));
            };
            let wrong = |what: &str| format!("the flag {name:?} has the value {value:?}: {what} is expected");
            match name {
                "address" => {
                    setup.addresses.push(value.parse().map_err(|_| wrong("an address of IPv4 or IPv6"))?)
                }
                "mtu" => setup.mtu = value.parse().map_err(|_| wrong("a number of bytes"))?,
                "push" => setup.shows_push = shown(value).ok_or_else(|| wrong("`shown` or `hidden`"))?,
                "window" => {
                    setup.settings.receive_window = value.parse().map_err(|_| wrong("a number of bytes"))?;
                }
                "delack" => {
                    let millis = value.parse().map_err(|_| wrong("a number of milliseconds"))?;
                    setup.settings.delayed_ack = Duration::from_millis(millis);
                }
                "sysctls" => setup.sysctls = Some(PathBuf::from(value)),
                _ => {
                    return Err(format!(
                        "there is no flag {name:?}: address, delack, mtu, push, sysctls and window are known"
                    ));
                }
            }
        }
        Ok(setup)
    }

    /// Takes over what a script has set before its first socket.
    pub(crate) fn read_settings(&mut self) {
        let Some(path) = &self.sysctls else { return };
        // No file: the script has set nothing.
        for line in std::fs::read_to_string(path).unwrap_or_default().lines() {
            apply(&mut self.settings, line);
        }
    }
}

/// One `NAME=VALUE` as `sysctl` takes it. Names that our engine does not have are ignored.
fn apply(settings: &mut Settings, line: &str) {
    let Some((path, value)) = line.split_once('=') else { return };
    let (path, value) = (path.trim(), value.trim());
    if let Some(name) = path.strip_prefix("net.inet.tcp.") {
        return apply_of_freebsd(settings, name, value);
    }
    let name = path.rsplit(['.', '/']).next().unwrap_or_default();
    match (name, value) {
        ("tcp_timestamps", value) => settings.timestamps = value != "0",
        ("tcp_sack", value) => settings.sack = value != "0",
        ("tcp_ecn", "0") => settings.ecn = Ecn::Off,
        ("tcp_ecn", "1") => settings.ecn = Ecn::Ask,
        ("tcp_ecn", _) => settings.ecn = Ecn::Accept,
        ("tcp_congestion_control", "reno") => settings.congestion = Algorithm::NewReno,
        _ => {}
    }
}

/// The same as FreeBSD names them.
fn apply_of_freebsd(settings: &mut Settings, name: &str, value: &str) {
    let Ok(number) = value.parse() else { return };
    let duration = Duration::from_millis(u64::from(number));
    match (name, number) {
        ("rfc1323", number) => settings.timestamps = number != 0,
        ("sack.enable", number) => settings.sack = number != 0,
        ("ecn.enable", 0) => settings.ecn = Ecn::Off,
        ("ecn.enable", 1) => settings.ecn = Ecn::Ask,
        ("ecn.enable", _) => settings.ecn = Ecn::Accept,
        ("recvspace", number) => settings.receive_window = number,
        ("delacktime", _) => settings.delayed_ack = duration,
        ("keepinit", _) => settings.open_timeout = duration,
        ("keepidle", _) => settings.keep_alive_idle = duration,
        ("keepintvl", _) => settings.keep_alive_interval = duration,
        ("keepcnt", number) => settings.keep_alive_probes = number.min(u32::from(u8::MAX)) as u8,
        _ => {}
    }
}

/// The choices of Linux among our settings, because the scripts are written for it.
fn settings() -> Settings {
    let mut settings = Settings::new([1, 2, 3, 4]);
    // So that the window needs a shift of 8.
    settings.receive_window = 15 << 20;
    // Linux acknowledges the first segments of a connection at once, and scripts are short.
    settings.delayed_ack = Duration::ZERO;
    settings
}

fn shown(value: &str) -> Option<bool> {
    match value {
        "shown" => Some(true),
        "hidden" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_taken() {
        let setup =
            Setup::parse("address=192.168.0.2,address=fd3d::2,mtu=1400,push=hidden").expect("good flags");
        assert_eq!(setup.addresses.len(), 2);
        assert_eq!((setup.mtu, setup.shows_push), (1400, false));
        assert!(Setup::parse("").is_ok_and(|setup| setup.shows_push));
    }

    #[test]
    fn wrong_flags_say_which() {
        for (flags, word) in [("mtu", "mtu"), ("mtu=big", "mtu"), ("push=1", "push"), ("size=1", "size")] {
            assert!(Setup::parse(flags).is_err_and(|error| error.contains(word)), "{flags}");
        }
    }

    #[test]
    fn settings_go_by_either_spelling() {
        let mut settings = settings();
        apply(&mut settings, "net.ipv4.tcp_timestamps=0");
        apply(&mut settings, "/proc/sys/net/ipv4/tcp_congestion_control=reno");
        apply(&mut settings, "net.ipv4.tcp_min_tso_segs=10");
        assert!(!settings.timestamps && settings.sack);
        apply(&mut settings, "net.inet.tcp.sack.enable=0");
        apply(&mut settings, "net.inet.tcp.rfc1323=1");
        apply(&mut settings, "net.inet.tcp.keepidle=15000");
        assert!(settings.timestamps && !settings.sack);
        assert_eq!(settings.keep_alive_idle, Duration::from_secs(15));
        assert_eq!(settings.congestion, Algorithm::NewReno);
    }
}
