//! SOCKS5 (RFC 1928), with user and password (RFC 1929).

use std::net::IpAddr;

use super::server::Login;
use super::{ProxyReason, SocksReply};

/// The client's end of SOCKS5 up to the reply to CONNECT.
pub(super) struct Socks {
    state: State,
    /// What came of the reply that is awaited.
    reply: Vec<u8>,
    /// Sent once a method is agreed on.
    login: Option<Vec<u8>>,
    /// Sent last.
    request: Vec<u8>,
}

enum State {
    /// Which method of authentication the proxy chooses.
    Method,
    /// Whether it takes user and password.
    Login,
    /// Whether it has made the connection.
    Connect,
}

impl Socks {
    pub(super) fn new(
        login: Option<&Login>,
        host: &str,
        port: u16,
        output: &mut Vec<u8>,
    ) -> Result<Self, ProxyReason> {
        let mut request = vec![VERSION, CONNECT, 0];
        match host.parse() {
            Ok(IpAddr::V4(ip)) => {
                request.push(IPV4);
                request.extend(ip.octets());
            }
            Ok(IpAddr::V6(ip)) => {
                request.push(IPV6);
                request.extend(ip.octets());
            }
            Err(_) => {
                request.push(NAME);
                push_short(&mut request, host.as_bytes())?;
            }
        }
        request.extend(port.to_be_bytes());
        let login = login.map(|login| {
            let mut message = vec![LOGIN_VERSION];
            push_short(&mut message, &login.user)?;
            // An empty one has to be a byte long by the RFC, which servers do not insist on.
            push_short_or_nothing(&mut message, &login.password)?;
            Ok(message)
        });
        let login = login.transpose()?;
        match login {
            None => output.extend([VERSION, 1, NO_LOGIN]),
            Some(_) => output.extend([VERSION, 2, NO_LOGIN, BY_PASSWORD]),
        }
        Ok(Self { state: State::Method, reply: Vec::new(), login, request })
    }

    /// Takes bytes; how many of them are before the tunnel, if that begins here.
    pub(super) fn receive(
        &mut self,
        bytes: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Option<usize>, ProxyReason> {
        for (at, &byte) in bytes.iter().enumerate() {
            self.reply.push(byte);
            if !self.is_whole()? {
                continue;
            }
            let taken = at + 1;
            match self.state {
                State::Connect => return Ok(Some(taken)),
                // It cannot know what it will be asked for.
                _ if taken < bytes.len() => return Err(ProxyReason::Early),
                State::Method if self.reply[1] == BY_PASSWORD => {
                    self.state = State::Login;
                    output.append(&mut self.login.take().unwrap_or_default());
                }
                State::Method | State::Login => {
                    self.state = State::Connect;
                    output.append(&mut self.request);
                }
            }
            self.reply.clear();
        }
        Ok(None)
    }

    /// Whether the reply has come whole. What is wrong with it is said at its first wrong byte.
    fn is_whole(&self) -> Result<bool, ProxyReason> {
        match (&self.state, &*self.reply) {
            (State::Method | State::Connect, [version, ..]) if *version != VERSION => {
                Err(ProxyReason::NotSocks)
            }
            (State::Method, [_, NO_ACCEPTABLE]) => {
                let asked = self.login.is_some();
                Err(if asked { ProxyReason::LoginRefused } else { ProxyReason::LoginWanted { offers: None } })
            }
            (State::Method, [_, NO_LOGIN]) => Ok(true),
            (State::Method, [_, BY_PASSWORD]) if self.login.is_some() => Ok(true),
            (State::Method, [_, _]) => Err(ProxyReason::NotSocks),
            // Some servers give the version of SOCKS here.
            (State::Login, [version, ..]) if ![LOGIN_VERSION, VERSION].contains(version) => {
                Err(ProxyReason::NotSocks)
            }
            (State::Login, [_, 0]) => Ok(true),
            (State::Login, [_, _]) => Err(ProxyReason::LoginRefused),
            (State::Connect, [_, code, ..]) if *code != 0 => Err(ProxyReason::Socks(SocksReply(*code))),
            // The address that the proxy connects from, which is of no use.
            (State::Connect, [_, _, _, IPV4, rest @ ..]) => Ok(rest.len() == 4 + PORT),
            (State::Connect, [_, _, _, IPV6, rest @ ..]) => Ok(rest.len() == 16 + PORT),
            (State::Connect, [_, _, _, NAME, rest @ ..]) => {
                Ok(rest.first().is_some_and(|length| rest.len() == 1 + usize::from(*length) + PORT))
            }
            (State::Connect, [_, _, _, _, ..]) => Err(ProxyReason::NotSocks),
            _ => Ok(false),
        }
    }
}

/// Appends a length of one byte, and the bytes: at least one.
fn push_short(message: &mut Vec<u8>, bytes: &[u8]) -> Result<(), ProxyReason> {
    if bytes.is_empty() { Err(ProxyReason::Target) } else { push_short_or_nothing(message, bytes) }
}

fn push_short_or_nothing(message: &mut Vec<u8>, bytes: &[u8]) -> Result<(), ProxyReason> {
    message.push(bytes.len().try_into().map_err(|_| ProxyReason::Target)?);
    message.extend_from_slice(bytes);
    Ok(())
}

const VERSION: u8 = 5;
const LOGIN_VERSION: u8 = 1;
const CONNECT: u8 = 1;
const NO_LOGIN: u8 = 0;
const BY_PASSWORD: u8 = 2;
const NO_ACCEPTABLE: u8 = 0xff;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;
/// Bytes of a port.
const PORT: usize = 2;
