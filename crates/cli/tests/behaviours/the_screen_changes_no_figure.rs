//! A load with its screen and one without it are compared as `ab` compares two servers, with noise limits from two loads without it: no
//! metric differs. Ignored, since it takes a minute and a half and is about the machine too:
//!
//! ```sh
//! cargo test --release -p anywire-cli --test behaviours -- --ignored --nocapture the_screen_changes_no_figure
//! ```

use std::path::Path;
use std::process::{Command, Stdio};

use anywire::load::Outcome;
use anywire::load::contrast::{Contrast, Noise};
use anywire::load::rounds::Round;
use anywire::load::statistics::Verdict;

use crate::common::{Served, has, text};

#[test]
#[ignore = "takes a minute and a half, and needs a machine that does nothing else"]
fn the_screen_changes_no_figure() {
    assert!(has("script"), "nothing makes a terminal here");
    let (served, folder) = (Served::demo(), tempfile::tempdir().expect("a folder"));
    let (url, result) = (served.url("/"), folder.path().join("result.json"));
    let [mut off, mut again, mut on] = [const { Vec::new() }; 3];
    for round in 0..ROUNDS {
        // Whatever drifts meets each of them first, in the middle and last.
        let mut sides = [(&mut off, "--no-screen"), (&mut again, "--no-screen"), (&mut on, "")];
        sides.rotate_left(round % 3);
        for (outcomes, option) in sides {
            outcomes.push(at_a_terminal(&url, option, &result));
        }
    }
    let [off, again, on] = [off, again, on].map(rounds);
    let seed = 1;
    let trial = Contrast::of(&off, &again, true, &Noise::default(), seed);
    let contrast = Contrast::of(&off, &on, true, &Noise::of_trial(&trial), seed);
    println!("{}", contrast.sentence("without the screen", "with it"));
    for metric in &contrast.metrics {
        println!("{}: {}", metric.title(), metric.change());
        let verdict = metric.judgement.verdict;
        assert!(!matches!(verdict, Some(Verdict::Faster | Verdict::Slower)), "{metric:?}");
    }
}

/// A load at a terminal of its own, with this option.
fn at_a_terminal(url: &str, option: &str, result: &Path) -> Outcome {
    let command = env!("CARGO_BIN_EXE_anywire");
    let load = format!(
        "{command} load {url} -c 16 -d 1s --warm-up 300ms --loops 1 --json {} {option}",
        text(result)
    );
    let mut script = Command::new("script");
    script.args(["-qec", &load, "/dev/null"]).env("TERM", "xterm").env_remove("NO_COLOR");
    // It is shown, and read by nobody but the terminal.
    let output = script.stdin(Stdio::null()).output().expect("it starts");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}");
    assert_eq!(shown.contains("\u{1b}[?1049h"), option.is_empty(), "the screen: {shown:?}");
    serde_json::from_str(&std::fs::read_to_string(result).expect("it was written")).expect("it is JSON")
}

fn rounds(outcomes: Vec<Outcome>) -> Vec<Round> {
    Outcome::of_rounds(outcomes).expect("there are rounds").rounds
}

/// As many of each as `ab` has without being told.
const ROUNDS: usize = 10;
