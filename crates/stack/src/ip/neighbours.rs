//! Messages of neighbours: what ARP and neighbour discovery ask and tell.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anywire_packet::arp::{Arp, Operation};
use anywire_packet::ethernet::{EtherType, Link, Mac};
use anywire_packet::ip::Header;
use anywire_packet::ndp::{ALL_NODES, Ndp, group_mac};
use anywire_sys::martian::is_martian;
use anywire_tcp::{Engine, Instant, Meta};

use super::layer::Layer;
use super::learn::Message;

impl Layer {
    pub(super) fn on_arp(&mut self, now: Instant, engine: &Engine, link: &Link, packet: &[u8], meta: Meta) {
        let Some(arp) = Arp::parse(packet) else { return self.refuse() };
        let (sender, target) = (IpAddr::V4(arp.sender), IpAddr::V4(arp.target));
        let is_probe = arp.sender == Ipv4Addr::UNSPECIFIED;
        if !self.is_others(arp.sender_mac) || !is_probe && is_martian(sender) {
            return self.refuse();
        }
        self.counters.asked_and_told += 1;
        if self.addresses.iter().any(|address| address.ip == sender) {
            return self.on_conflict(now, sender, arp.sender_mac);
        }
        if is_probe && !self.owns(target) {
            // Two that probe for one address: neither has it (RFC 5227 2.1.1).
            return self.on_conflict(now, target, arp.sender_mac);
        }
        if !is_probe {
            let message = self.message(engine, &arp, link);
            self.cache.learn(now, sender, Some(arp.sender_mac), message, engine);
        }
        if arp.operation == Operation::Request
            && self.owns(target)
            && !meta.is_answered
            && self.may_answer(now, engine, sender)
        {
            self.push(arp.reply(self.mac).frame(arp.sender_mac, self.mac).to_vec());
        }
    }

    /// What a message of ARP says of its sender. Only an answer to a question of ours proves that it hears us; a neighbour is new
    /// only if it asks us, from our link; and what others say to each other updates who is known (RFC 826).
    fn message(&self, engine: &Engine, arp: &Arp, link: &Link) -> Message {
        let is_to_us = link.destination() == self.mac || self.owns(arp.target.into());
        match arp.operation {
            Operation::Reply if is_to_us && self.cache.is_asked(arp.sender.into()) => {
                Message::Solicited { overrides: true }
            }
            Operation::Request if self.owns(arp.target.into()) && is_on_link(engine, arp.sender.into()) => {
                Message::Solicitation
            }
            _ => Message::Unsolicited { overrides: true },
        }
    }

    pub(super) fn on_ndp(&mut self, now: Instant, engine: &Engine, link: &Link, frame: &[u8], meta: Meta) {
        let Some((_, EtherType::IPV6, packet)) = Link::parse(frame) else {
            self.counters.ignored += 1;
            return;
        };
        let message = match Ndp::parse(packet) {
            Ok(Some(message)) => message,
            Ok(None) => return self.on_multicast_query(now, packet),
            Err(_) => return self.refuse(),
        };
        let Ok(header) = Header::parse_v6(packet) else { return self.refuse() };
        self.counters.asked_and_told += 1;
        let (_, source) = header.addresses.ips();
        match message {
            Ndp::Solicitation { target, source_mac } => {
                if self.on_solicitation(now, engine, link, source, target, source_mac)
                    && !meta.is_answered
                    && self.may_answer(now, engine, source)
                {
                    self.answer_solicitation(link, source, target, source_mac);
                }
            }
            Ndp::Advertisement { target, target_mac, flags } => {
                // Our own, which a repeater has brought back from a source of its own: a sign of nobody else (RFC 4862 5.4.3
                // and appendix A).
                if target_mac == Some(self.mac) {
                    return self.refuse();
                }
                let address = IpAddr::V6(target);
                if self.addresses.iter().any(|known| known.ip == address) {
                    return self.on_conflict(now, address, target_mac.unwrap_or_else(|| link.source()));
                }
                let overrides = flags.overrides;
                let message = if flags.solicited && self.cache.is_asked(address) {
                    Message::Solicited { overrides }
                } else {
                    Message::Unsolicited { overrides }
                };
                let mac = target_mac.filter(|mac| self.is_others(*mac));
                self.cache.learn(now, address, mac, message, engine);
            }
        }
    }

    /// RFC 4861 7.2.3; RFC 4862 5.4.3. Whether it is a question for an address of ours.
    fn on_solicitation(
        &mut self,
        now: Instant,
        engine: &Engine,
        link: &Link,
        source: IpAddr,
        target: Ipv6Addr,
        source_mac: Option<Mac>,
    ) -> bool {
        let address = IpAddr::V6(target);
        let from = source_mac.unwrap_or_else(|| link.source());
        if !self.is_others(from) {
            self.refuse();
            return false;
        }
        if self.addresses.iter().any(|known| known.ip == source) {
            self.on_conflict(now, source, from);
            return false;
        }
        if !self.owns(address) {
            // Somebody who probes for an address that we probe for.
            if source.is_unspecified() {
                self.on_conflict(now, address, from);
            }
            return false;
        }
        if source_mac.is_some() && !source.is_unspecified() && is_on_link(engine, source) {
            self.cache.learn(now, source, source_mac, Message::Solicitation, engine);
        }
        true
    }

    /// RFC 4861 7.2.4.
    fn answer_solicitation(
        &mut self,
        link: &Link,
        source: IpAddr,
        target: Ipv6Addr,
        source_mac: Option<Mac>,
    ) {
        let IpAddr::V6(asking) = source else { return };
        if asking.is_unspecified() {
            return self.advertise(target, ALL_NODES, group_mac(ALL_NODES), false);
        }
        // Without an option it is answered where it came from: it has asked over this link.
        self.advertise(target, asking, source_mac.unwrap_or_else(|| link.source()), true);
    }

    fn is_others(&self, mac: Mac) -> bool {
        mac != self.mac && !mac.is_group() && mac != Mac::default()
    }
}

/// Whether an address is that of a neighbour, by our routes.
fn is_on_link(engine: &Engine, address: IpAddr) -> bool {
    engine.next_hop(address).is_ok_and(|hop| hop.address == address)
}
