//! Options of sockets: the ones that the engine has, and a few without an effect here.

use anywire_tcp::ConnId;

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
                network.engine().set_user_timeout(id, std::time::Duration::from_millis(millis));
                DONE
            }
            // The path's MTU is found out anyway, and the type of service is not the engine's.
            (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER | libc::IP_TOS) => DONE,
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
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => match self.id() {
                Some(id) => network.engine().segment_bytes(id) as i64,
                None => i64::from(network.setup().mtu - IPV4_AND_TCP_HEADER_BYTES),
            },
            _ => return Err(Errno(libc::ENOPROTOOPT)),
        };
        Ok(Reply::Number(value))
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
