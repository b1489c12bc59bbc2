//! The pages of `--html` fit the window of a phone, a laptop and a large screen, in light and dark, and a sheet of paper.
//!
//! Pages with figures as large as can be are in the tests of the load engine. Here each command makes its own.

#[path = "../../../load/tests/behaviours/support/browser.rs"]
mod browser;
#[path = "../../../load/tests/behaviours/support/layout.rs"]
mod layout;

use layout::Medium;

use crate::common::{Served, anywire, stderr, text};
use crate::skipped;
use crate::udp_accounts_on_both_ends::Service;

#[test]
fn of_each_command() {
    let Some(browser) = browser::installed() else { return };
    let folder = tempfile::tempdir().expect("a directory for the pages");
    let page = |name: &str| folder.path().join(name);
    let long = "W".repeat(60);
    let web = Served::demo();
    let url = web.url(&format!("/{}", long.repeat(4)));
    let service = Service::on(&format!("unixgram:{}", page(&long[..40]).display()), &["--loops", "1"]);
    let stored = page("ab.json");
    let turns =
        ["--rounds", "5", "-d", "20ms", "--turn", "10ms", "--warm-up", "0", "-c", "2", "--rate", "1k"];
    let ab = [&["ab", &url, &url, "--json", text(&stored)], &turns[..]].concat();
    let commands: [(&str, &[&str]); 9] = [
        ("ab", &ab),
        ("diff", &["diff", text(&stored), text(&stored)]),
        ("compare", &["compare", "--quick", "--duration", "20ms", "--rounds", "2", "--protocols", "h1,h2"]),
        ("ladder", &["ladder", "--quick", "--duration", "20ms", "--rounds", "1"]),
        ("ipc", &["ipc", "--duration", "2ms", "--sizes", "1,100,1k,4k,64k,1m"]),
        ("ipc of much", &["ipc", "--duration", "2ms", "--sizes", "16m", "--ways", "unix"]),
        ("load", &["load", &url, "--duration", "100ms", "--warm-up", "0"]),
        ("udp", &["udp", "load", &service.address, "--rate", "1000", "--duration", "100ms"]),
        (
            "search",
            &["udp", "load", &service.address, "--search", "0.5", "--duration", "50ms", "--wait", "50ms"],
        ),
    ];
    let mut pages = Vec::new();
    for (name, arguments) in commands {
        let path = page(&format!("{name}.html"));
        let output = anywire(&[arguments, &["--html", text(&path)]].concat());
        let html = std::fs::read_to_string(&path).unwrap_or_else(|_| panic!("{name}: {}", stderr(&output)));
        assert!(html.contains("<svg role="), "{name} draws no chart");
        pages.push((name, html));
    }
    let faults = layout::faults(&browser, &pages, &[Medium::Screen, Medium::Print]);
    assert_eq!(faults, Vec::<String>::new());
}
