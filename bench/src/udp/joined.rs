//! What joining saves: 64 datagrams of a flow in a call (GSO and GRO), against a call for each.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use anywire_loops::{Loops, Pinning};
use anywire_sys::cpu;
use anywire_wire::udp::{Outgoing, Received, Udp, UdpOptions};
use serde::Serialize;

use super::Options;
use super::servers::RECEIVE_BUFFER;
use crate::report::{Bar, Bound};
use crate::rounds::{Spread, interleaved};
use crate::table::{self, Table};

/// Datagrams of 200 bytes for each CPU second of both ends.
#[derive(Serialize)]
pub struct Joined {
    one_a_call: Option<Spread>,
    joined: Option<Spread>,
    /// Joined by one a call, round by round.
    gain: Option<Spread>,
}

/// Measures both in turn.
pub fn run(options: &Options, seed: u32, bars: &mut Vec<Bar>) -> Result<Joined> {
    let all = interleaved(&[false, true], options.rounds as usize, seed, |&offload, round| {
        let figure = once(options, offload)?;
        eprintln!("joined: {offload}, round {}: {:.2} M/CPU s", round + 1, figure / 1e6);
        Ok(figure)
    });
    for rounds in &all {
        ensure!(rounds.failure.is_none(), "joining could not be measured: {:?}", rounds.failure);
    }
    let joined = Joined {
        one_a_call: all[0].spread(|figure| Some(*figure)),
        joined: all[1].spread(|figure| Some(*figure)),
        gain: all[1].ratio_to(&all[0], |figure| *figure),
    };
    let millions = |spread: Option<Spread>| {
        spread.map(|one| Spread { median: one.median / 1e6, min: one.min / 1e6, max: one.max / 1e6 })
    };
    let mut text = Table::new(&["datagrams of 200 bytes", "M a CPU second", "x"]);
    text.row(["one a call".to_owned(), table::spread(millions(joined.one_a_call), 2)]);
    let gain = table::spread(joined.gain, 1);
    text.row(["joined (GSO, GRO)".to_owned(), table::spread(millions(joined.joined), 2), gain]);
    println!("\n{}", text.text());
    // The bar says at least; as a quotient the other way round it says at most.
    let inverse = joined.gain.map(|gain| 1.0 / gain.median);
    bars.push(Bar::judge(
        "one a call / joined, datagrams a CPU second".to_owned(),
        Bound::AtMost(0.1),
        inverse,
    ));
    Ok(joined)
}

/// Sends for a while from one pinned loop to another; what arrived, by the CPU time of both.
fn once(options: &Options, offload: bool) -> Result<f64> {
    let cores = cpu::available_cores();
    let loops = Loops::builder().count(2).pinning(Pinning::Cores(cores)).start()?;
    let udp = UdpOptions { receive_buffer_bytes: RECEIVE_BUFFER, offload, ..UdpOptions::default() };
    let receiver = Udp::bind("udp:127.0.0.1:0", &udp, 1)?.remove(0);
    let target = receiver.local().clone();
    let receiving = loops.get(0).spawn(move || async move {
        let socket = receiver.register()?;
        let (mut received, mut count) = (Received::new(&socket), 0_u64);
        // It ends when nothing has come for a while.
        while let Ok(arrived) = tokio::time::timeout(REST, socket.receive(&mut received)).await {
            arrived?;
            count += received.iter().filter(|datagram| datagram.data().len() == 200).count() as u64;
        }
        Ok::<_, std::io::Error>(count)
    });
    let until = Instant::now() + Duration::from_secs(options.seconds);
    let sending = loops.get(1).spawn(move || async move {
        let socket = Udp::connect(target, &udp).await?;
        let mut outgoing = Outgoing::new(&socket);
        while Instant::now() < until {
            for _ in 0..64 {
                outgoing.push_to_peer(&[7; 200])?;
            }
            socket.flush(&mut outgoing).await;
        }
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    });
    let before: Duration = loops.counters().iter().map(|one| one.cpu).sum();
    sending.wait()?.map_err(anyhow::Error::msg)?;
    let count = receiving.wait()??;
    let used = loops.counters().iter().map(|one| one.cpu).sum::<Duration>().saturating_sub(before);
    ensure!(count > 0, "nothing arrived");
    Ok(count as f64 / used.as_secs_f64())
}

const REST: Duration = Duration::from_millis(300);
