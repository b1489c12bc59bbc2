//! What the layer says itself: questions for neighbours, probes and announcements of its addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anywire_packet::arp::Arp;
use anywire_packet::ethernet::{Link, Mac};
use anywire_packet::ndp::{ALL_NODES, Advertised, Ndp, group_mac, solicited_node};
use anywire_tcp::Engine;

use super::layer::Layer;

impl Layer {
    /// Asks for a neighbour (RFC 826; RFC 4861 7.2.2).
    pub(super) fn ask(&mut self, engine: &Engine, address: IpAddr, mac: Option<Mac>) {
        let is_same_family = |ip: &IpAddr| ip.is_ipv4() == address.is_ipv4();
        let chosen = engine.next_hop(address).ok().and_then(|hop| hop.source);
        let any = || self.addresses.iter().map(|address| address.ip).find(is_same_family);
        let Some(source) = chosen.filter(is_same_family).or_else(any) else { return };
        self.counters.questions += 1;
        match (address, source) {
            (IpAddr::V4(target), IpAddr::V4(source)) => {
                let question = Arp::request(self.mac, source, target);
                self.push(question.frame(mac.unwrap_or(Mac::BROADCAST), self.mac).to_vec());
            }
            (IpAddr::V6(target), IpAddr::V6(source)) => {
                let question = Ndp::Solicitation { target, source_mac: Some(self.mac) };
                let group = solicited_node(target);
                let to = if mac.is_some() { target } else { group };
                let link = Link::new(mac.unwrap_or_else(|| group_mac(group)), self.mac);
                self.push(question.frame(link, source, to));
            }
            _ => {}
        }
    }

    /// Asks whether somebody else has an address (RFC 5227 2.1.1; RFC 4862 5.4.2).
    pub(super) fn probe(&mut self, ip: IpAddr) {
        self.counters.questions += 1;
        match ip {
            IpAddr::V4(ip) => {
                let probe = Arp::request(self.mac, Ipv4Addr::UNSPECIFIED, ip);
                self.push(probe.frame(Mac::BROADCAST, self.mac).to_vec());
            }
            IpAddr::V6(target) => {
                let group = solicited_node(target);
                let link = Link::new(group_mac(group), self.mac);
                let probe = Ndp::Solicitation { target, source_mac: None };
                self.push(probe.frame(link, Ipv6Addr::UNSPECIFIED, group));
            }
        }
    }

    /// Tells all neighbours that an address is ours (RFC 5227 2.3; RFC 4861 7.2.6).
    pub(super) fn announce(&mut self, ip: IpAddr) {
        match ip {
            IpAddr::V4(ip) => {
                let announcement = Arp::request(self.mac, ip, ip);
                self.push(announcement.frame(Mac::BROADCAST, self.mac).to_vec());
            }
            IpAddr::V6(ip) => self.advertise(ip, ALL_NODES, group_mac(ALL_NODES), false),
        }
    }

    /// Says that an IPv6 address is ours.
    pub(super) fn advertise(&mut self, ip: Ipv6Addr, to: Ipv6Addr, mac: Mac, solicited: bool) {
        let flags = Advertised { router: false, solicited, overrides: true };
        let advertisement = Ndp::Advertisement { target: ip, target_mac: Some(self.mac), flags };
        self.push(advertisement.frame(Link::new(mac, self.mac), ip, to));
    }
}
