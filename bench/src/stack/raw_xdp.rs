//! The least that a request costs over AF_XDP: a loop that answers frames and keeps nothing of a connection. It takes each segment with
//! payload for a whole request, and loses what is lost: only fit for a measurement on a line that loses nothing.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::task::Waker;

use anyhow::{Context, Result, bail, ensure};
use anywire_stack::device::{Device, Readiness};
use anywire_stack::xdp::{Attachment, Options, Wanted, WantedMode, Xdp};
use anywire_tcp::Instant;
use rustix::event::{PollFd, PollFlags, poll};

use super::packets::{self, ACK, FIN, PSH, SYN, Segment};
use super::servers::response;
use crate::servers::Announce;

pub(super) fn serve(interface: &str, at: SocketAddr, closes: bool) -> Result<()> {
    let IpAddr::V4(own) = at.ip() else { bail!("only IPv4") };
    let attachment = Attachment::attach(interface, WantedMode::Any)?;
    let mut device = Xdp::open(&attachment, attachment.share(0, 1)?, Options::default())?;
    let _claim = attachment.claim(Wanted::Address(at.ip()))?;
    Announce.listening(at);
    let (mut incoming, mut outgoing) = (device.batch(), device.batch());
    let mac = device.capabilities().mac.context("an Ethernet has an address")?.bytes();
    let (response, now) = (response(closes), Instant::default());
    let mut answer = Vec::with_capacity(2048);
    loop {
        let mut vain = 0;
        // As many looks in vain before a sleep as the stack has at most.
        while device.receive(now, &mut incoming) == 0 {
            vain += 1;
            if vain < LOOKS_MAX || device.before_sleep(Waker::noop()) {
                continue;
            }
            let Readiness::Descriptor(descriptor) = device.readiness() else {
                bail!("AF_XDP has a descriptor")
            };
            poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)], None)?;
        }
        for frame in incoming.iter() {
            answer.clear();
            if answer_to(frame, own, mac, &response, closes, &mut answer).is_some() {
                ensure!(outgoing.push(&answer), "a batch has room for the answers to one");
            }
        }
        incoming.clear();
        while !outgoing.is_empty() {
            device.transmit(now, &mut outgoing);
        }
    }
}

/// Writes the answer to a frame; none if there is none.
fn answer_to(
    frame: &[u8],
    own: Ipv4Addr,
    mac: [u8; 6],
    response: &[u8],
    closes: bool,
    answer: &mut Vec<u8>,
) -> Option<()> {
    if packets::is_arp_request_for(frame, own) {
        packets::write_arp_reply(frame, own, mac, answer);
        return Some(());
    }
    let heard = Segment::read(frame)?;
    let mut said = heard.turned_round();
    said.ack = heard.seq.wrapping_add(heard.payload_bytes as u32);
    if heard.has(SYN) {
        (said.seq, said.ack, said.flags) = (0, heard.seq.wrapping_add(1), SYN | ACK);
        said.write(&[], answer);
    } else if heard.payload_bytes > 0 {
        said.flags = if closes { PSH | ACK | FIN } else { PSH | ACK };
        said.write(response, answer);
    } else if heard.has(FIN) {
        said.ack = said.ack.wrapping_add(1);
        said.flags = if closes { ACK } else { ACK | FIN };
        said.write(&[], answer);
    } else {
        return None;
    }
    Some(())
}

const LOOKS_MAX: u32 = 64;
