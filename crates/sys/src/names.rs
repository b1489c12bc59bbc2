//! The addresses of a host name, as the system finds them (`getaddrinfo(3)`).
//!
//! The standard library asks the same, and tells a name that does not exist from a name server that does not answer by text
//! only. One of the two may be remembered, the other is worth another try.

use std::ffi::{CStr, CString};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ptr;

/// Why the system has no address for a name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// There is no such name, or it has no address.
    #[error("no such name, or it has no address")]
    NotFound,
    /// No name server gave an answer. It may do so later.
    #[error("no name server gave an answer")]
    TryAgain,
    /// The resolver failed in another way, with this text of its own.
    #[error("{0}")]
    Failed(String),
    /// A system call of the resolver failed.
    #[error(transparent)]
    System(io::Error),
}

/// All addresses of a host, in the order in which they are to be tried (RFC 6724). Their port is 0. Blocks for as long as the
/// system's resolver does: many seconds if no name server answers.
///
/// ```
/// let found = anywire_sys::names::addresses_of("127.0.0.1")?;
/// assert_eq!(found, ["127.0.0.1:0".parse().unwrap()]);
/// # Ok::<(), anywire_sys::names::NameError>(())
/// ```
///
/// # Errors
///
/// See [`NameError`]. A name with a NUL is [`NameError::NotFound`].
#[allow(unsafe_code)]
pub fn addresses_of(host: &str) -> Result<Vec<SocketAddr>, NameError> {
    let Ok(host) = CString::new(host) else { return Err(NameError::NotFound) };
    // SAFETY: all-zero bytes are a valid `addrinfo`: numbers and null pointers.
    let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
    // Else each address comes once for each type of socket.
    hints.ai_socktype = libc::SOCK_STREAM;
    let mut list = ptr::null_mut();
    // SAFETY: the name is a C string, the hints outlive the call, and `list` is written only if the result is 0.
    let code = unsafe { libc::getaddrinfo(host.as_ptr(), ptr::null(), &raw const hints, &raw mut list) };
    if code != 0 {
        return Err(error_of(code));
    }
    let list = List(list);
    let mut found = Vec::new();
    let mut next = list.0;
    // SAFETY: `next` is null or a node of the list, which lives until `list` is dropped.
    while let Some(node) = unsafe { next.as_ref() } {
        // SAFETY: the node's address is null, or as long as `ai_addrlen` says and of the kind that `ai_family` says.
        found.extend(unsafe { address_of(node) });
        next = node.ai_next;
    }
    Ok(found)
}

/// The list that `getaddrinfo` made.
struct List(*mut libc::addrinfo);

impl Drop for List {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: it came from `getaddrinfo`, and is freed once.
        unsafe { libc::freeaddrinfo(self.0) }
    }
}

/// # Safety
///
/// The node is one of a list of `getaddrinfo`.
#[allow(unsafe_code)]
unsafe fn address_of(node: &libc::addrinfo) -> Option<SocketAddr> {
    if node.ai_addr.is_null() {
        return None;
    }
    match node.ai_family {
        libc::AF_INET => {
            // SAFETY: an address of this family is a `sockaddr_in`; the read asks for no alignment.
            let raw = unsafe { node.ai_addr.cast::<libc::sockaddr_in>().read_unaligned() };
            // The bytes of the address are in the order of the network.
            let ip = Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddrV4::new(ip, 0).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above, with `sockaddr_in6`.
            let raw = unsafe { node.ai_addr.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(SocketAddrV6::new(Ipv6Addr::from(raw.sin6_addr.s6_addr), 0, 0, raw.sin6_scope_id).into())
        }
        _ => None,
    }
}

fn error_of(code: libc::c_int) -> NameError {
    match code {
        libc::EAI_NONAME | EAI_NODATA | EAI_ADDRFAMILY => NameError::NotFound,
        libc::EAI_AGAIN => NameError::TryAgain,
        libc::EAI_SYSTEM => NameError::System(io::Error::last_os_error()),
        _ => NameError::Failed(text_of(code)),
    }
}

#[allow(unsafe_code)]
fn text_of(code: libc::c_int) -> String {
    // SAFETY: the text is a constant of the C library.
    unsafe { CStr::from_ptr(libc::gai_strerror(code)) }.to_string_lossy().into_owned()
}

/// The name exists and has no address. An extension of GNU, whose number the others do not use.
const EAI_NODATA: libc::c_int = -5;
/// The same for a family of addresses.
const EAI_ADDRFAMILY: libc::c_int = -9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_addresses() {
        for number in ["::1", "10.1.2.3"] {
            let expected = SocketAddr::new(number.parse().expect("an address"), 0);
            assert_eq!(addresses_of(number).expect("an address"), [expected]);
        }
    }

    #[test]
    fn what_is_no_name_is_not_found() {
        for name in ["a\0b", "", "-.-.invalid."] {
            let error = addresses_of(name).expect_err(name);
            // Without a name server the system cannot know.
            assert!(matches!(error, NameError::NotFound | NameError::TryAgain), "{name:?}: {error:?}");
        }
    }
}
