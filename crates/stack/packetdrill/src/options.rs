//! Options of sockets: the ones that the engine has, and a few without an effect here.

use std::time::Duration;

use anywire_tcp::{ConnId, KeepAlive};

use crate::call::{Answer, DONE, Errno, Reply};
use crate::network::Network;
use crate::sockets::{Kind, Socket};

impl Socket {
    pub(crate) fn set_option(&mut self, network: &mut Network, level: i32, name: i32, value: i32) -> Answer {
        match (level, name) {
            // An address is free as soon as its listener has gone, and packetdrill is the only peer.
            (libc::SOL_SOCKET, libc::SO_REUSEADDR | libc::SO_REUSEPORT) => DONE,
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => {
                self.send_bytes = Some(2 * usize::try_from(value).map_err(|_| Errno(libc::EINVAL))?);
                DONE
            }
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => {
                self.receive_bytes = Some(2 * usize::try_from(value).map_err(|_| Errno(libc::EINVAL))?);
                DONE
            }
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) if self.is_fresh() => {
                self.options.keep_alive = value != 0;
                DONE
            }
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => {
                self.options.no_nagle = value != 0;
                if let Some(id) = self.id() {
                    network.engine().set_no_nagle(id, value != 0);
                }
                DONE
            }
            // The advertised MSS follows from the MTU of the route.
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) if self.id().is_none() => {
                let mss = u16::try_from(value).ok().filter(|mss| (536..=8960).contains(mss));
                network.set_mtu(mss.ok_or(Errno(libc::EINVAL))? + IPV4_AND_TCP_HEADER_BYTES);
                DONE
            }
            (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => {
                let id = self.id().ok_or(Errno(libc::ENOPROTOOPT))?;
                let millis = u64::try_from(value).map_err(|_| Errno(libc::EINVAL))?;
                network.engine().set_user_timeout(id, Duration::from_millis(millis));
                DONE
            }
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE | libc::TCP_KEEPINTVL | libc::TCP_KEEPCNT) => {
                let mut times = self.times(network);
                match (name, u32::try_from(value).map_err(|_| Errno(libc::EINVAL))?) {
                    (libc::TCP_KEEPIDLE, seconds) => times.idle = Duration::from_secs(seconds.into()),
                    (libc::TCP_KEEPINTVL, seconds) => times.interval = Duration::from_secs(seconds.into()),
                    (_, probes) => times.probes = u8::try_from(probes).map_err(|_| Errno(libc::EINVAL))?,
                }
                self.keep_alive = Some(times);
                if let Some(id) = self.id().filter(|_| self.options.keep_alive) {
                    network.engine().set_keep_alive(id, Some(times));
                }
                DONE
            }
            // The lower two bits are ECN's.
            (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                self.options.dscp = u8::try_from(value).map_err(|_| Errno(libc::EINVAL))? >> 2;
                if let Some(id) = self.id() {
                    network.engine().set_dscp(id, self.options.dscp);
                }
                DONE
            }
            // The path's MTU is found out anyway.
            (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER) => DONE,
            _ => Err(Errno(libc::ENOPROTOOPT)),
        }
    }

    pub(crate) fn option(&mut self, network: &mut Network, level: i32, name: i32) -> Answer {
        let value = match (level, name) {
            (libc::SOL_SOCKET, libc::SO_ERROR) => self.end(network).map_or(0, |error| i64::from(error.0)),
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => self.send_bytes.unwrap_or(network.send_bytes_max()) as i64,
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => {
                self.receive_bytes.unwrap_or(network.setup().settings.receive_window as usize) as i64
            }
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => i64::from(self.options.keep_alive),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => i64::from(self.options.no_nagle),
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => self.times(network).idle.as_secs() as i64,
            (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => self.times(network).interval.as_secs() as i64,
            (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => self.times(network).probes.into(),
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => match self.id() {
                Some(id) => network.engine().segment_bytes(id) as i64,
                None => i64::from(network.setup().mtu - IPV4_AND_TCP_HEADER_BYTES),
            },
            _ => return Err(Errno(libc::ENOPROTOOPT)),
        };
        Ok(Reply::Number(value))
    }

    /// Its times of keep-alive: its own, or those of the settings.
    fn times(&self, network: &Network) -> KeepAlive {
        let settings = &network.setup().settings;
        self.keep_alive.unwrap_or(KeepAlive {
            idle: settings.keep_alive_idle,
            interval: settings.keep_alive_interval,
            probes: settings.keep_alive_probes,
        })
    }

    const fn is_fresh(&self) -> bool {
        matches!(self.kind, Kind::Fresh)
    }

    const fn id(&self) -> Option<ConnId> {
        match self.kind {
            Kind::Connected(id) => Some(id),
            _ => None,
        }
    }
}

/// An MSS is the MTU without them (RFC 6691).
const IPV4_AND_TCP_HEADER_BYTES: u16 = 40;
