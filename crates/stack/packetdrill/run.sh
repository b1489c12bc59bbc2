#!/usr/bin/env bash
# Runs packetdrill's scripts about TCP against the engine, and prints what came of each.
#
#     run.sh CHECKOUT [SCRIPT...]
#
# CHECKOUT is one of https://github.com/google/packetdrill in which packetdrill has been built as its README says. SCRIPT is
# relative to CHECKOUT/gtests/net/tcp; without one, the 51 scripts that are about TCP rather than about Linux are run.
#
# Each script runs as it is but for two things. Blocks %{ .. }% are left out: packetdrill would ask the system, not us, for
# the tcp_info in them. And commands for the system (sysctl, ip, tc, ethtool) meet stand-ins in a folder of their own, so that
# nothing of this machine is changed; what they set is handed to the engine if it has such a setting.
#
# Verdicts: "pass"; "pass, PSH apart" if it passes with the PSH flag left out of the script and of our segments: where to set
# it is every stack's own choice (RFC 9293 MUST-60, MUST-61); "FAIL" with the first difference.
set -euo pipefail

if (($# < 1)); then
    sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2
    exit 2
fi
here="$(cd "$(dirname "$0")" && pwd)"
checkout="$(cd "$1" && pwd)"
shift
packetdrill="$checkout/gtests/net/packetdrill/packetdrill"
scripts="$checkout/gtests/net/tcp"
if [[ ! -x "$packetdrill" ]]; then
    echo "there is no $packetdrill: build it first, as packetdrill's README says" >&2
    exit 1
fi

(($#)) || set -- \
    blocking/blocking-{accept,connect,read,write}.pkt \
    close/close-{local-close-then-remote-fin,on-syn-sent,remote-fin-then-close}.pkt \
    cwnd_moderation/cwnd-moderation-{disorder-no-moderation,ecn-enter-cwr-no-moderation-700}.pkt \
    fast_recovery/prr-ss-{10pkt-lost-1,30pkt-lost-1_4-11_16,30pkt-lost1_4,ack-below-snd_una-cubic}.pkt \
    fast_retransmit/fr-4pkt{-fack-last-byte,-fack-last-mss,-sack,}.pkt \
    limited_transmit/limited-transmit-{no-sack,sack}.pkt \
    mss/mss-{getsockopt-tcp_maxseg-server,setsockopt-tcp_maxseg-client,setsockopt-tcp_maxseg-server}.pkt \
    nagle/{https_client,sendmsg_msg_more,sockopt_cork_nodelay}.pkt \
    sack/{sack-route-refresh-ip-tos,sack-shift-sacked-{2-6-8-3-9-nofack,7-3-4-8-9-fack,7-5-6-8-9-fack}}.pkt \
    shutdown/shutdown-{rd-close,rd-wr-close,rdwr-close,rdwr-send-queue-ack-close,rdwr-write-queue-close,wr-close}.pkt \
    slow_start/slow-start-{ack-per-1pkt,ack-per-2pkt-send-5pkt,ack-per-2pkt-send-6pkt,ack-per-2pkt,ack-per-4pkt}.pkt \
    slow_start/slow-start-{after-idle,after-win-update,app-limited-9-packets-out,app-limited,fq-ack-per-2pkt}.pkt \
    ts_recent/{fin_tsval,invalid_ack,reset_tsval}.pkt \
    user_timeout/{user-timeout-probe,user_timeout}.pkt \
    validate/validate-established-no-flags.pkt

cargo build --quiet --manifest-path "$here/Cargo.toml"
shared_object="$(cargo metadata --format-version 1 --no-deps --manifest-path "$here/Cargo.toml" |
    sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/debug/libanywire_packetdrill.so"

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# Where scripts look for ../common and ../../common, and what they find there.
mkdir -p "$work"/{bin,common,tcp/common,tcp/script}
printf '#!/bin/sh\n' >"$work/common/defaults.sh"
cat >"$work/bin/sysctl" <<'STAND_IN'
#!/bin/sh
for word; do case "$word" in *=*) echo "$word" >>"$SYSCTLS" ;; esac; done
STAND_IN
# The one that scripts call beside it also leaves a command to undo what it set, where they look for it.
cat >"$work/tcp/common/set_sysctls.py" <<'STAND_IN'
#!/bin/sh
undo="/tmp/sysctl_restore_$PACKETDRILL_PID.sh"
printf '#!/bin/sh\n' >"$undo"
chmod u+x "$undo"
echo "$undo" >>"$SYSCTLS.undo"
exec sysctl "$@"
STAND_IN
printf '#!/bin/sh\n' >"$work/bin/nothing"
chmod u+x "$work"/bin/* "$work"/*/defaults.sh "$work/tcp/common/set_sysctls.py"
cp "$work/common/defaults.sh" "$work/tcp/common/"
ln -s nothing "$work/bin/ip"
ln -s nothing "$work/bin/tc"
ln -s nothing "$work/bin/ethtool"
export PATH="$work/bin:$PATH" SYSCTLS="$work/sysctls"

# run FLAGS: one script, already in place; what went wrong is in $work/error.
run() {
    rm -f "$SYSCTLS"
    : >"$SYSCTLS.undo"
    local result=0
    (cd "$work/tcp/script" && timeout 60 "$packetdrill" --so_filename="$shared_object" \
        --so_flags="address=192.168.0.2,sysctls=$SYSCTLS,$1" --local_ip=192.168.0.2 script.pkt) >/dev/null 2>"$work/error" || result=$?
    xargs -r rm -f <"$SYSCTLS.undo"
    return "$result"
}

# What went wrong, in a line.
difference() {
    tr '\n' ' ' <"$work/error" | sed 's/^script.pkt:/line /;s/runtime error in //;s/error handling packet: //;s/  */ /g' |
        cut -c 1-260
}

# A line of the table; the numbers in packetdrill's complaints are those of this line of the script.
passed=0 passed_apart=0
printf '%-76s %-16s %s\n' "script" "verdict" "first difference"
for script; do
    if [[ ! -f "$scripts/$script" ]]; then
        echo "there is no $scripts/$script" >&2
        exit 1
    fi
    # Lines keep their numbers, so that what packetdrill says can be found in the script.
    awk '{ line = $0; if (!inside && match(line, /^[^\/`]*%\{/)) inside = 1
           if (inside) { print ""; if (line ~ /\}%/) inside = 0 } else print line }' \
        "$scripts/$script" >"$work/tcp/script/script.pkt"
    if run push=shown; then
        verdict="pass" difference="" passed=$((passed + 1))
    else
        difference="$(difference)"
        sed -E -i 's/^([^<`]*[ \t]>[ \t]+)([A-Z]*)P([A-Z]*\.)/\1\2\3/' "$work/tcp/script/script.pkt"
        if run push=hidden; then
            verdict="pass, PSH apart" passed_apart=$((passed_apart + 1))
        else
            verdict="FAIL"
            difference="$(difference)"
        fi
    fi
    grep -q '%{' "$scripts/$script" && script+=" (without tcp_info)"
    printf '%-76s %-16s %s\n' "$script" "$verdict" "$difference"
done
echo "$passed of $# pass, $passed_apart more but for PSH"
