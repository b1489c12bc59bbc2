//! `--write-out` has curl's words, also for a call that failed, and says which word it does not know.

use crate::common::{anywire, anywire_with_stdin, command, stderr, stdout, text};
use crate::recorder::Recorder;
use crate::secured::Secured;

#[test]
fn words_are_known_of_calls_that_fail() {
    let recorder = Recorder::start();
    let format = "[%{http_code} %{size_download} %{exitcode} %{url} %{onerror}%{errormsg}]";
    let output = anywire(&[
        "get",
        "-s",
        "-w",
        format,
        &recorder.url("/cut"),
        &recorder.url("/json"),
        "http://127.0.0.1:1/",
    ]);
    let printed = stdout(&output);
    let (cut, json) = (recorder.url("/cut"), recorder.url("/json"));
    assert!(printed.starts_with(&format!("cut[200 3 18 {cut} calling {cut}: ")), "{printed}");
    assert!(printed.contains(&format!("{{\"a\":1}}[200 7 0 {json} ")), "{printed}");
    assert!(printed.contains("[000 0 7 http://127.0.0.1:1/ cannot reach "), "{printed}");
    assert_eq!(stderr(&output), "");
}

#[test]
fn all_of_it_is_json() {
    let recorder = Recorder::start();
    let output =
        anywire(&["get", "-o", "/dev/null", "-w", "%{json}\\n%{header_json}", &recorder.url("/json")]);
    let printed = stdout(&output);
    let mut lines =
        printed.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let (all, headers) = (lines.next().expect("a line"), lines.next().expect("a line"));
    assert_eq!(all["http_code"], 200);
    assert_eq!(all["size_download"], 7);
    assert_eq!(all["filename_effective"], "/dev/null");
    assert_eq!(headers["x-say"], serde_json::json!(["hi"]));
    let (total, first) = (all["time_total"].as_f64(), all["time_starttransfer"].as_f64());
    assert!(first > Some(0.0) && first <= total, "{all}");
}

#[test]
fn a_field_that_comes_again_is_one_list() {
    let output =
        anywire(&["get", "-o", "/dev/null", "-w", "%{header_json}", &Recorder::start().url("/varied")]);
    let headers: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(headers["vary"], serde_json::json!(["a", "b"]));
    assert_eq!(headers["x-say"], serde_json::json!(["hi"]));
}

#[test]
fn times_follow_each_other() {
    let recorder = Recorder::start();
    let times = |args: &[&str]| {
        let output = anywire(&[&["get", "-s", "-o", "/dev/null", "-w", "%{json}\\n"], args].concat());
        let line = stdout(&output).lines().last().expect("a line").to_owned();
        serde_json::from_str::<serde_json::Value>(&line).expect("JSON")
    };
    let all = times(&["-L", &recorder.url("/old")]);
    let order =
        ["time_redirect", "time_pretransfer", "time_posttransfer", "time_starttransfer", "time_total"];
    let seconds = |word: &str| all[word].as_f64().expect("a number");
    assert!(order.map(seconds).is_sorted() && seconds("time_redirect") > 0.0, "{all}");
    // The second request goes over the connection of the first.
    assert_eq!((&all["num_connects"], seconds("time_connect")), (&1.into(), 0.0), "{all}");
    assert_eq!((all["time_appconnect"].as_f64(), &all["num_retries"]), (Some(0.0), &0.into()));
    let all = times(&[&recorder.url("/json")]);
    let order = ["time_namelookup", "time_connect", "time_pretransfer", "time_starttransfer"];
    let seconds = |word: &str| all[word].as_f64().expect("a number");
    assert!(order.map(seconds).is_sorted() && seconds("time_namelookup") > 0.0, "{all}");
    let (ip, port) = recorder.authority.rsplit_once(':').expect("it has a port");
    assert_eq!(
        (&all["remote_ip"], &all["remote_port"]),
        (&ip.into(), &port.parse::<u16>().expect("a number").into())
    );
    assert_eq!(all["local_ip"], "127.0.0.1");
    assert!(all["local_port"].as_u64() > Some(0));
}

#[test]
fn what_goes_up_is_counted() {
    let (recorder, dir) = (Recorder::start(), tempfile::tempdir().expect("a folder"));
    let file = dir.path().join("data");
    std::fs::write(&file, [b'x'; 100_000]).expect("the folder can be written");
    let (url, old, file) = (recorder.url("/echo"), recorder.url("/old"), format!("@{}", text(&file)));
    let format = "\\n%{size_upload} %{num_connects}";
    let last = |output: &std::process::Output| stdout(output).lines().last().expect("a line").to_owned();
    for (args, sent) in [
        (&["-d", "a=1", "-d", "b=2", &url][..], "7 1"),
        (&["-d", &file, &url], "100000 1"),
        (&["-d", "a=1", "-d", &file, &url], "100004 1"),
        // That goes on as a GET.
        (&["-L", "-d", "a=1", &old], "0 1"),
        (&["-d", "a=1", "http://127.0.0.1:1/"], "0 0"),
    ] {
        let output = anywire(&[&["post", "-s", "-w", format], args].concat());
        assert_eq!(last(&output), sent, "{args:?}: {}", stderr(&output));
    }
    let output =
        anywire_with_stdin(&["post", "-s", "-d", "a=", "-d", "-", "-w", format, &url], b"from stdin");
    assert_eq!(last(&output), "13 1");
    let output = anywire(&["post", "-d", &file, "-w", "\\n%{speed_upload}", &url]);
    assert!(last(&output).parse::<u64>().expect("a number") > 0);
}

#[test]
fn heads_of_requests_are_counted_in_all_and_say_who_refers() {
    let recorder = Recorder::start();
    let format = "\\n%{size_request} [%{referer}]";
    let of = |args: &[&str]| {
        let output = anywire(&[&["get", "-s", "-w", format], args].concat());
        let line = stdout(&output).lines().last().expect("a line").to_owned();
        let (size, referer) = line.split_once(' ').expect("two words");
        (size.parse::<usize>().expect("a number"), referer.to_owned())
    };
    let (json, referred) = (recorder.url("/json"), ["-H", "Referer: http://a/"]);
    let (plain, none) = of(&[&json]);
    let least = format!("GET /json HTTP/1.1\r\nhost: {}\r\n\r\n", recorder.authority).len();
    assert!(plain > least && none == "[]", "{plain} of {least} at least, {none}");
    let (more, said) = of(&[&referred[..], &[&json]].concat());
    assert_eq!((more - plain, &*said), ("referer: http://a/\r\n".len(), "[http://a/]"));
    assert!(of(&["-L", &recorder.url("/old")]).0 > plain + least - 10, "both requests count");
    assert_eq!(of(&["http://127.0.0.1:1/"]).0, 0);
}

#[test]
fn connections_have_numbers_and_may_lead_to_a_proxy() {
    let recorder = Recorder::start();
    let (json, proxy) = (recorder.url("/json"), format!("http://{}", recorder.authority));
    let printed = |args: &[&str]| {
        let format = ["get", "-s", "-o", "/dev/null", "-w", "%{conn_id} %{proxy_used},"];
        stdout(&anywire(&[&format, args].concat()))
    };
    // The response to /cut ends its connection.
    let all = printed(&[&json, &json, &recorder.url("/cut"), &json]);
    assert_eq!(all, "0 0,{\"a\":1}0 0,cut0 0,{\"a\":1}1 0,");
    assert_eq!(printed(&["http://127.0.0.1:1/"]), "-1 0,");
    assert_eq!(printed(&["-x", &proxy, "http://h.test/json"]), "0 1,");
    assert_eq!(printed(&["-x", &proxy, "--noproxy", "127.0.0.1", &json]), "0 0,");
}

#[test]
fn certificates_are_told() {
    let server = Secured::start();
    let (root, url) = (server.certificate(), server.url("/"));
    let json = |args: &[&str]| {
        let output = anywire(&[&["get", "-s", "-o", "/dev/null", "-w", "%{json}"], args, &[&url]].concat());
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("JSON")
    };
    let known = json(&["--cacert", text(&root)]);
    assert_eq!((&known["num_certs"], &known["ssl_verify_result"]), (&1.into(), &0.into()), "{known}");
    let certs = known["certs"].as_str().expect("text");
    let pem = std::fs::read_to_string(&root).expect("it is there");
    let told = certs.split_once("Cert:").expect("one").1;
    assert!(certs.starts_with("Subject:") && certs.contains("\nIssuer:"), "{certs}");
    assert_eq!(told.lines().collect::<Vec<_>>(), pem.lines().collect::<Vec<_>>());
    for (args, certificates) in [(&["-k"][..], 1), (&[], 0)] {
        let unknown = json(args);
        let found = (&unknown["num_certs"], &unknown["ssl_verify_result"]);
        assert_eq!(found, (&certificates.into(), &1.into()), "{args:?}: {unknown}");
    }
    let output =
        anywire(&["get", "-s", "-w", "%{num_certs} %{ssl_verify_result}", &Recorder::start().url("/")]);
    assert_eq!(stdout(&output), "hi0 0");
}

#[test]
fn a_call_that_reaches_nobody_has_no_ends() {
    let output = anywire(&[
        "get",
        "-s",
        "-w",
        "[%{remote_ip} %{remote_port} %{num_connects} %{time_connect}]",
        "http://127.0.0.1:1/",
    ]);
    assert_eq!(stdout(&output), "[ 0 0 0.000000]");
}

#[test]
fn an_unknown_word_is_said_before_the_call() {
    let recorder = Recorder::start();
    let output = anywire(&["get", "-w", "%{http_cod}", &recorder.url("/json")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("%{http_cod} is no word of it"), "{}", stderr(&output));
    assert!(recorder.take().is_empty());
}

#[test]
fn a_format_ends_at_a_mib() {
    let recorder = Recorder::start();
    let output = anywire(&["get", "-w", "@/dev/zero", &recorder.url("/")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("longer than 1 MiB"), "{}", stderr(&output));
    assert!(recorder.take().is_empty());
}

#[test]
fn a_format_may_be_a_file() {
    let (recorder, dir) = (Recorder::start(), tempfile::tempdir().expect("a folder"));
    let file = dir.path().join("format");
    std::fs::write(&file, " %{http_code}\\n").expect("the folder can be written");
    let format = format!("@{}", text(&file));
    assert_eq!(stdout(&anywire(&["get", "-w", &format, &recorder.url("/")])), "hi 200\n");
    let mut command = command();
    command
        .args(["get", "-w", "@-", &recorder.url("/")])
        .stdin(std::fs::File::open(&file).expect("it is there"));
    assert_eq!(stdout(&command.output().expect("the built command starts")), "hi 200\n");
}
