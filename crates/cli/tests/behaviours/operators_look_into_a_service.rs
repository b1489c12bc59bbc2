//! `anywire stack` finds a service on a device, shows what it does, and captures what passes, while it runs.

use std::collections::HashMap;

use crate::common::{anywire, has, stderr, stdout};
use crate::namespaces::{with_tap, with_veth};

/// A service on 10.0.0.2:8080 that has answered once, and has one request under way.
const SERVICE: &str = r#"
    export XDG_RUNTIME_DIR="$1"
    mkfifo "$1/listening"
    "$0" serve --loops 2 --listen stack:tap0/10.0.0.2:8080 > "$1/listening" & server=$!
    exec 3< "$1/listening"
    read -r first <&3
    call() { curl --silent --show-error --max-time 20 "http://10.0.0.2:8080$1"; }
    call /bytes/20000 > "$1/body"
    call /delay/6000 > /dev/null & slow=$!
    for try in $(seq 1000); do
        "$0" stack stat "$server" --json | grep -qE '"bytes_received": ?[1-9]' && break
    done
"#;

/// What a script printed, by its headings.
fn parts(script: &str) -> Option<HashMap<String, String>> {
    let output = with_tap(&format!("{SERVICE}{script}\nkill $server $slow; wait"))?;
    let (said, wrong) = (stdout(&output), stderr(&output));
    let parts = said.split("== ").skip(1).filter_map(|part| part.split_once('\n'));
    let parts: HashMap<_, _> = parts.map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
    assert!(!parts.is_empty(), "{said}{wrong}");
    Some(parts.into_iter().chain([("stderr".to_owned(), wrong)]).collect())
}

#[test]
fn stat_shows_what_ss_and_nstat_would() {
    let script = r#"
        echo "== modes"; stat -c %a "$1/anywire" "$1/anywire/$server.sock"
        echo "== all"; "$0" stack stat
        echo "== by pid"; "$0" stack stat "$server" --connections
        echo "== zeros"; "$0" stack stat tap0 --counters --zeros
        echo "== json"; "$0" stack stat --json
        echo "== prometheus"; "$0" stack stat --prometheus
        echo "== curl"; curl --silent --unix-socket "$1/anywire/$server.sock" http://localhost/metrics | head -n 1
        echo "== nobody"; "$0" stack stat tap1; echo "$?"; "$0" stack stat 1; echo "$?"
        "$0" stack capture --device tap1 -o "$1/none.pcapng"; echo "$?"; ls "$1" | grep none
        kill -STOP "$server"; "$0" stack stat; echo "$?"; "$0" stack stat "$server"; echo "$?"; kill -CONT "$server"
    "#;
    let Some(parts) = parts(script) else { return };
    assert_eq!(parts["modes"], "700\n600\n");
    let all = &parts["all"];
    for part in [
        "tap0 loop ",
        "    inet 10.0.0.2\n",
        "10.0.0.1 dev tap0 lladdr ",
        "State      Recv-Q Send-Q",
        "LISTEN          0   1024      10.0.0.2:8080         0.0.0.0:*\n",
        "ESTAB           0      0      10.0.0.2:8080 ",
        " cubic wscale:",
        "TcpPassiveOpens                               2\n",
    ] {
        assert!(all.contains(part), "{part:?} in {all}");
    }
    assert_eq!(all.matches("LISTEN ").count(), 1, "one service, on two loops: {all}");
    assert!(!all.contains("TcpExtTCPAbortOnMemory"), "no zeros: {all}");
    assert!(all.lines().all(|line| line.len() <= 80), "it fits a terminal: {all}");
    assert!(
        parts["by pid"].starts_with("State ") && parts["by pid"].contains("ESTAB"),
        "{}",
        parts["by pid"]
    );
    assert!(parts["zeros"].contains("TcpExtTCPAbortOnMemory                        0"), "{}", parts["zeros"]);
    let json: serde_json::Value = serde_json::from_str(&parts["json"]).expect("it is JSON");
    let hosts = json["hosts"].as_array().expect("a list");
    assert_eq!(json["schema"], "anywire.stack/1");
    assert!(hosts.len() == 2 && hosts.iter().all(|host| host["device"] == "tap0"), "{hosts:?}");
    let opened: u64 = hosts.iter().filter_map(|host| host["counters"]["TcpPassiveOpens"].as_u64()).sum();
    assert_eq!(opened, 2, "of both loops together");
    let mut connections = hosts.iter().filter_map(|host| host["connections"].as_array()).flatten();
    let open = connections.find(|one| one["state"] == "ESTAB");
    let open = open.expect("the slow one");
    assert!(open["bytes_received"].as_u64() > Some(50), "the request: {open}");
    assert!(open["rto"].as_f64() > Some(0.0) && open["cwnd"].as_u64() >= Some(10), "{open}");
    let opened = "anywire_stack_tcp_accepted_total{device=\"tap0\",loop=\"";
    let prometheus = &parts["prometheus"];
    assert!(prometheus.contains("# TYPE anywire_stack_tcp_accepted_total counter\n"), "{prometheus}");
    assert!(
        prometheus.contains(opened) && prometheus.contains("anywire_stack_tcp_connections{"),
        "{prometheus}"
    );
    assert!(parts["curl"].starts_with("# HELP anywire_stack_"), "{}", parts["curl"]);
    assert_eq!(parts["nobody"], "7\n7\n1\n7\n28\n");
    let wrong = &parts["stderr"];
    for part in [
        "a service on tap1 is not found in ",
        "help: name one of those that run: ",
        "process 1 is not",
        "this process has not opened tap1; it has tap0",
        "has not answered within 5s",
        "see whether its process is stopped",
    ] {
        assert!(wrong.contains(part), "{part:?} in {wrong}");
    }
}

#[test]
fn capture_writes_what_tshark_reads() {
    if !has("tshark") {
        return;
    }
    let script = r#"
        run() {
            file="$1"; shift
            # Nothing of a loop that had no core for a while.
            RUST_LOG=error "$0" stack capture tap0 -o "$file" "$@" 2> "$file.log" & capture=$!
            until grep -q . "$file.log"; do sleep 0.01; done
        }
        run "$1/filtered.pcapng" --filter 'tcp src port 8080 and host 10.0.0.1' --count 5
        call /bytes/20000 > "$1/body"
        wait $capture; echo "== count $?"; cat "$1/filtered.pcapng.log"
        echo "== filtered"; tshark -r "$1/filtered.pcapng" -T fields -e tcp.srcport -e frame.interface_name -e _ws.malformed 2> /dev/null
        run "$1/all.pcap" --bytes 60
        ip neigh del 10.0.0.2 dev tap0; call /json > "$1/body"
        sleep 0.2; kill -INT $capture; wait $capture; echo "== signal $?"; tail -n 1 "$1/all.pcap.log"
        echo "== all"; tshark -r "$1/all.pcap" -T fields -e eth.type -e frame.cap_len 2> /dev/null | sort | uniq
        echo "== stdout"; "$0" stack capture -o - -c 1 2> /dev/null < /dev/null | head -c 4 | od -An -tx1 & printed=$!
        sleep 0.2; call /json > "$1/body"; wait $printed
    "#;
    let Some(parts) = parts(script) else { return };
    assert_eq!(
        parts["count 0"], "capturing; Ctrl-C ends it\n5 packets captured, 0 dropped\n",
        "{}",
        parts["stderr"]
    );
    let lines: Vec<_> = parts["filtered"].lines().collect();
    assert_eq!(lines.len(), 5, "{lines:?}");
    assert!(
        lines.iter().all(|line| line.starts_with("8080\ttap0 loop ") && line.ends_with('\t')),
        "{lines:?}"
    );
    assert!(parts["signal 0"].ends_with(" captured, 0 dropped\n"), "{}", parts["signal 0"]);
    let protocols: Vec<_> = parts["all"].lines().filter_map(|line| line.split_once('\t')).collect();
    for ether_type in ["0x0800", "0x0806"] {
        assert!(protocols.iter().any(|(found, _)| *found == ether_type), "{protocols:?}");
    }
    assert!(
        protocols.iter().all(|(_, bytes)| bytes.parse::<u32>().is_ok_and(|bytes| bytes <= 60)),
        "{protocols:?}"
    );
    assert_eq!(parts["stdout"].trim(), "0a 0d 0d 0a");
}

#[test]
fn polling_is_told_by_the_address() {
    let script = r#"
        export XDG_RUNTIME_DIR="$1"
        polls() { "$0" stack stat -z --counters | sed -n 's/^StackPolls  *\([0-9]*\).*/\1/p'; }
        for how in sleep spin; do
            mkfifo "$1/$how"
            "$0" serve --loops 1 --listen "stack:tap0/10.0.0.2:8080?poll=$how" > "$1/$how" & server=$!
            exec 3< "$1/$how"; read -r first <&3
            curl --silent --show-error --max-time 20 http://10.0.0.2:8080/ > "$1/body"
            before=$(polls); sleep 0.2; after=$(polls)
            echo "$how $((after - before))"
            kill $server; wait $server
        done
    "#;
    let Some(output) = with_tap(script) else { return };
    let said = stdout(&output);
    let polls: HashMap<_, u64> = said
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(how, polls)| (how, polls.parse().expect("a number")))
        .collect();
    assert!(polls["sleep"] < 100 && polls["spin"] > 500, "{said}{}", stderr(&output));
}

#[test]
fn a_peer_without_a_route_to_it_is_told() {
    let script = r#"
        export XDG_RUNTIME_DIR="$1"
        mkfifo "$1/listening"
        "$0" serve --listen 'stack:tap0/10.0.0.129:8080?prefix=25' > "$1/listening" 2> "$1/log" & server=$!
        exec 3< "$1/listening"
        read -r first <&3
        curl --silent --max-time 1.5 http://10.0.0.129:8080/; echo "curl $?"
        "$0" stack stat --counters | grep -c IpOutNoRoutes
        grep -c "cannot be answered" "$1/log"
        kill $server; wait; cat "$1/log" >&2
    "#;
    let Some(output) = with_tap(script) else { return };
    let (said, wrong) = (stdout(&output), stderr(&output));
    // curl's 28: nothing came in time.
    assert_eq!(said, "curl 28\n1\n1\n", "{wrong}");
    for part in ["WARN", "10.0.0.1 has called", "network 10.0.0.128/25", "gateway="] {
        assert!(wrong.contains(part), "{part}: {wrong}");
    }
}

#[test]
fn an_address_that_the_kernel_is_given_is_told_once() {
    let script = r#"
        mkfifo "$1/listening"
        "$0" serve --loops 2 --listen stack:tap0/10.0.0.2:8080 > "$1/listening" 2> "$1/log" & server=$!
        exec 3< "$1/listening"
        read -r first <&3
        # Then a loop has the address, and its kernel does not.
        curl --silent --show-error --max-time 20 http://10.0.0.2:8080/ > "$1/body"
        ip addr add 10.0.0.9/32 dev lo
        ip addr add 10.0.0.2/32 dev lo
        # It is told with the next frame: a question for somebody who is not there.
        for try in $(seq 100); do
            grep -q "has been given" "$1/log" && break
            curl --silent --max-time 0.1 http://10.0.0.77/
        done
        curl --silent --max-time 0.1 http://10.0.0.78/
        kill $server; wait; cat "$1/log" >&2
        grep "has been given" "$1/log" | grep -o "10\.0\.0\.[0-9]*"
    "#;
    let Some(output) = with_tap(script) else { return };
    let (said, wrong) = (stdout(&output), stderr(&output));
    assert_eq!(said, "10.0.0.2\n", "{wrong}");
    for part in ["WARN", "which is ours, and answers for it", "take it from the kernel"] {
        assert!(wrong.contains(part), "{part}: {wrong}");
    }
}

#[test]
fn another_mac_of_its_interface_is_told_once() {
    let script = r#"
        mkfifo "$1/listening"
        "$0" serve --loops 2 --listen stack:xdp:ours/10.0.0.2:8080 > "$1/listening" 2> "$1/log" & server=$!
        exec 3< "$1/listening"
        read -r first <&3
        ip link set ours address 02:00:00:00:00:77
        for try in $(seq 100); do
            grep -q "02:00:00:00:00:77 now" "$1/log" && break
            sleep 0.1
        done
        kill $server; wait $server; cat "$1/log" >&2
        grep -c "02:00:00:00:00:77 now" "$1/log"
    "#;
    let Some(output) = with_veth(script) else { return };
    let (said, wrong) = (stdout(&output), stderr(&output));
    assert_eq!(said, "1\n", "{wrong}");
    assert!(wrong.contains("WARN") && wrong.contains("neighbours do not reach us"), "{wrong}");
}

#[test]
fn a_filter_that_is_not_understood_is_refused_at_its_place() {
    let wrong = anywire(&["stack", "capture", "-o", "x.pcapng", "--filter", "tcp port 80 or 443"]);
    let said = stderr(&wrong);
    assert_eq!(wrong.status.code(), Some(2), "{said}");
    for part in ["\"443\" where there should be", "at byte 15", "write it as for tcpdump"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!std::path::Path::new("x.pcapng").exists());
}
