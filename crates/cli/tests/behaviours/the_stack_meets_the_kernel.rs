//! `stack:` on a device: the kernel's TCP is at the other end, with programs of others above it.
//!
//! Each test has a network namespace of its own, where 10.0.0.1 and fd00::1 of the kernel are joined with 10.0.0.2 and fd00::2 of
//! `anywire`.

use crate::common::{has, stderr, stdout};
use crate::namespaces::{with_tap, with_veth};

#[test]
fn curl_calls_a_service_on_the_stack() {
    let script = r#"
        mkfifo "$1/listening"
        "$0" serve --tls-self-signed --listen stack:tap0/10.0.0.2:8080 --listen 'stack:tap0/[fd00::2]:8080' \
            --listen tls+stack:tap0/10.0.0.2:8443 > "$1/listening" &
        exec 3< "$1/listening"
        read -r first <&3; read -r second <&3; read -r third <&3
        echo "$first; $second; $third"
        for url in http://10.0.0.2:8080/ 'http://[fd00::2]:8080/' https://10.0.0.2:8443/; do
            for version in --http1.1 --http2-prior-knowledge; do
                curl --silent --show-error --insecure --max-time 20 $version --retry 20 --retry-connrefused --retry-delay 1 "$url"
                echo
            done
        done
        head -c 3000000 /dev/zero | curl --silent --show-error --max-time 20 --data-binary @- http://10.0.0.2:8080/echo | wc -c
        ping -c 1 -W 5 10.0.0.2 > /dev/null && echo "it answers"
        kill $!
        wait
    "#;
    let Some(output) = with_tap(script) else { return };
    let said = stdout(&output);
    assert!(said.starts_with("listening on stack:tap0/10.0.0.2:8080; "), "{said}{}", stderr(&output));
    assert_eq!(said.matches("Hello, World!\n").count(), 6, "{said}{}", stderr(&output));
    assert!(said.contains("3000000\n"), "{said}{}", stderr(&output));
}

#[test]
fn servers_of_the_kernel_are_called() {
    if !has("nginx") {
        return;
    }
    let script = r#"
        mkdir "$1/www" "$1/logs" && head -c 5000000 /dev/zero > "$1/www/large" && echo -n hello > "$1/www/small"
        cat > "$1/nginx.conf" <<END
            user root root; daemon off; master_process off; pid $1/pid; error_log stderr;
            events { worker_connections 512; }
            http { access_log off; client_body_temp_path $1/logs; proxy_temp_path $1/logs; fastcgi_temp_path $1/logs;
                   uwsgi_temp_path $1/logs; scgi_temp_path $1/logs;
                   server { listen 8000; listen [::]:8000; root $1/www; } }
END
        nginx -p "$1" -c "$1/nginx.conf" & server=$!
        curl --silent --output /dev/null --retry 100 --retry-connrefused --retry-delay 1 http://10.0.0.1:8000/small
        via='stack:tap0/10.0.0.1:8000?from=10.0.0.2'
        "$0" get http://10.0.0.1:8000/small --via "$via"; echo
        "$0" get http://10.0.0.1:8000/large --via "$via" | wc -c
        "$0" get 'http://[fd00::1]:8000/small' --via 'stack:tap0/[fd00::1]:8000?from=fd00::2'; echo
        "$0" load http://10.0.0.1:8000/small --via "$via" -c 20 -n 500 --require 'errors<1' > /dev/null && echo loaded
        # From several loops, over a device with one queue and over one with a queue for each.
        "$0" load http://10.0.0.1:8000/small --via "$via" --loops 2 -c 200 -n 2000 --require 'errors<1' > /dev/null && echo loaded
        ip tuntap add dev tap2 mode tap multi_queue
        ip addr add 10.2.0.1/24 dev tap2 && ip link set tap2 up
        "$0" load http://10.2.0.1:8000/small --via 'stack:tap2/10.2.0.1:8000?from=10.2.0.2' --loops 3 -c 200 -n 2000 \
            --require 'errors<1' > /dev/null && echo loaded
        "$0" get http://10.0.0.1:8000/small --via stack:tap0/10.0.0.1:8000
        "$0" get http://10.0.0.1:8000/small --via 'stack:tap1/10.0.0.1:8000?from=10.0.0.2'
        # The kernel has this one.
        "$0" get http://10.0.0.1:8000/small --via 'stack:tap0/10.0.0.1:8000?from=10.0.0.1'
        kill $server
        wait
    "#;
    let Some(output) = with_tap(script) else { return };
    let (said, wrong) = (stdout(&output), stderr(&output));
    assert_eq!(said, "hello\n5000000\nhello\nloaded\nloaded\nloaded\n", "{wrong}");
    for part in [
        "name one, such as ?from=10.0.0.2/24",
        "there is no interface of this name",
        "the kernel has it on tap0",
    ] {
        assert!(wrong.contains(part), "{part}: {wrong}");
    }
}

#[test]
fn a_command_that_ends_closes_its_connections() {
    let script = r#"
        mkfifo "$1/listening"
        "$0" serve --listen tcp:10.0.0.1:8000 > "$1/listening" & server=$!
        exec 3< "$1/listening"
        read -r listening <&3
        via='stack:tap0/10.0.0.1:8000?from=10.0.0.2/24'
        for number in 1 2 3; do
            "$0" get http://10.0.0.1:8000/ --via "$via"; echo
            "$0" get http://10.0.0.1:8000/ --via "$via" --http2; echo
        done
        # 1F40 is the port, and 01 is ESTABLISHED.
        awk '$2 ~ /:1F40$/ && $4 == "01"' /proc/net/tcp
        kill -TERM $server; wait $server; echo "server $?"
    "#;
    let Some(output) = with_tap(script) else { return };
    let expected = format!("{}server 0\n", "Hello, World!\n".repeat(6));
    assert_eq!(stdout(&output), expected, "{}", stderr(&output));
}

#[test]
fn a_device_is_of_one_process() {
    let script = r#"
        ip tuntap add dev tap2 mode tap multi_queue
        ip addr add 10.2.0.1/24 dev tap2 && ip link set tap2 up
        mkfifo "$1/listening"
        "$0" serve --listen stack:tap2/10.2.0.2:8080 > "$1/listening" & server=$!
        exec 3< "$1/listening"
        read -r listening <&3
        "$0" get http://10.2.0.1:8000/ --via 'stack:tap2/10.2.0.1:8000?from=10.2.0.3/24' 2> "$1/wrong"
        grep -q "process $server has tap2" "$1/wrong" && echo refused || cat "$1/wrong"
        curl --silent --show-error --max-time 20 http://10.2.0.2:8080/; echo
        kill $server; wait $server
        # It is free again.
        "$0" get http://10.2.0.1:8000/ --via 'stack:tap2/10.2.0.1:8000?from=10.2.0.3/24' 2>&1 | grep -o "nobody listens"
    "#;
    let Some(output) = with_tap(script) else { return };
    let said = stdout(&output);
    assert!(said.starts_with("refused\nHello, World!\nnobody listens\n"), "{said}{}", stderr(&output));
}

/// By AF_XDP, which a namespace of users is not given.
#[test]
fn curl_calls_a_service_on_an_interface() {
    let script = r#"
        mkfifo "$1/listening"
        "$0" serve --listen stack:xdp:ours/10.0.0.2:8080 --listen 'stack:xdp:ours/[fd00::2]:8080' > "$1/listening" & server=$!
        exec 3< "$1/listening"
        read -r first <&3; read -r second <&3
        echo "$first; $second"
        for url in http://10.0.0.2:8080/ 'http://[fd00::2]:8080/'; do
            there curl --silent --show-error --max-time 20 --retry 20 --retry-connrefused --retry-delay 1 "$url"; echo
        done
        "$0" serve --listen stack:xdp:ours/10.0.0.3:8080 2>&1 | grep -q "process $server has ours" && echo refused
        kill $server && wait $server
    "#;
    let Some(output) = with_veth(script) else { return };
    let listening = "listening on stack:xdp:ours/10.0.0.2:8080; listening on stack:xdp:ours/[fd00::2]:8080";
    assert_eq!(
        stdout(&output),
        format!("{listening}\nHello, World!\nHello, World!\nrefused\n"),
        "{}",
        stderr(&output)
    );
}
