//! A service on a device that is told to end answers what is under way and refuses what is new; and one whose device goes says so.

use crate::common::{stderr, stdout};
use crate::namespaces::with_tap;

const SERVICE: &str = r#"
    export XDG_RUNTIME_DIR="$1"
    mkfifo "$1/listening"
    "$0" serve --loops 2 --listen stack:tap0/10.0.0.2:8080 > "$1/listening" & server=$!
    exec 3< "$1/listening"
    read -r first <&3
    call() { curl --silent --show-error --max-time 20 "http://10.0.0.2:8080$1"; }
    call / > "$1/body"
"#;

#[test]
fn requests_under_way_are_answered_after_the_signal() {
    let script = r#"
        begin() { slow=; for number in 1 2 3 4 5 6; do call /delay/2000 > "$1/slow$number" & slow="$slow $!"; done; }
        begin "$1"
        until [ "$("$0" stack stat --connections | grep -c ESTAB)" = 6 ]; do
            # On a busy machine the first ones may have ended before the last one came.
            for one in $slow; do kill -0 $one 2> "$1/ended" && continue; wait $slow; begin "$1"; break; done
        done
        kill -TERM $server
        sleep 0.2
        call / > "$1/late"; echo "late $?"
        for one in $slow; do wait "$one"; echo "slow $?"; done
        wait $server; echo "server $?"
        ls "$1/anywire"
        ip -o link show tap0 | grep -c tap0
    "#;
    let Some(output) = with_tap(&format!("{SERVICE}{script}")) else { return };
    let said = stdout(&output);
    // curl's 7: refused.
    let expected = format!("late 7\n{}server 0\n1\n", "slow 0\n".repeat(6));
    assert_eq!(said, expected, "{}", stderr(&output));
}

#[test]
fn a_service_whose_device_is_removed_ends() {
    let script = r#"
        call /delay/5000 > "$1/slow" 2> "$1/error" & slow=$!
        until [ "$("$0" stack stat --connections | grep -c ESTAB)" = 1 ]; do :; done
        ip link del tap0
        wait $server; echo "server $?"
        kill $slow
    "#;
    let Some(output) = with_tap(&format!("{SERVICE}{script}")) else { return };
    let (said, wrong) = (stdout(&output), stderr(&output));
    assert!(said.starts_with("server 1\n"), "{said}{wrong}");
    assert_eq!(wrong.matches("listening has ended").count(), 1, "{wrong}");
    for part in ["tap0 was removed", "start again once it is there"] {
        assert!(wrong.contains(part), "{part}: {wrong}");
    }
}

#[test]
fn a_service_goes_on_where_another_listener_is_left() {
    let script = r#"
        mkfifo "$1/listening"
        "$0" serve --listen stack:tap0/10.0.0.3:8080 --listen "unix:$1/socket" > "$1/listening" 2> "$1/log" & also=$!
        exec 3< "$1/listening"; read -r first <&3; read -r second <&3
        ip link del tap0
        until grep -q ended "$1/log"; do :; done
        curl --silent --show-error --max-time 20 --unix-socket "$1/socket" http://localhost/; echo
        kill -TERM $also; wait $also; echo "server $?"
    "#;
    let Some(output) = with_tap(&format!("export XDG_RUNTIME_DIR=\"$1\"\n{script}")) else { return };
    assert_eq!(stdout(&output), "Hello, World!\nserver 0\n", "{}", stderr(&output));
}
