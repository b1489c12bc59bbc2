//! Which addresses the kernel has on its interfaces.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The interface on which the kernel itself has this address, in the network namespace of this thread. None if it has it on none.
///
/// ```
/// use anywire_sys::interfaces::interface_with;
///
/// // Of the documentation (RFC 5737): nobody has it.
/// assert_eq!(interface_with("192.0.2.7".parse()?)?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// What `getifaddrs(3)` said: no memory or no descriptor is left.
pub fn interface_with(address: IpAddr) -> io::Result<Option<String>> {
    let mut list = std::ptr::null_mut();
    // SAFETY: on success a list is written to `list`, which is freed below.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let (mut next, mut found) = (list, None);
    while !next.is_null() && found.is_none() {
        // SAFETY: `next` is an entry of the list, which is freed only behind this loop.
        let entry = unsafe { &*next };
        // SAFETY: an entry's address is null, or as long as its family says; its name ends with a zero.
        let (its, name) = unsafe { (address_of(entry.ifa_addr), CStr::from_ptr(entry.ifa_name)) };
        if its == Some(address) {
            found = Some(name.to_string_lossy().into_owned());
        }
        next = entry.ifa_next;
    }
    // SAFETY: the list is that of `getifaddrs`, and nothing of it is used any more.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// # Safety
///
/// `address` is null, or points to a socket address as long as its family says.
unsafe fn address_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: the caller's promise: every family is at least as long as a `sockaddr`'s first field.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: the caller's promise. It is read without asking how it lies in memory.
            let address = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let address = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_has_its_address() {
        let loopback = interface_with(Ipv4Addr::LOCALHOST.into()).expect("it is asked");
        assert_eq!(loopback.as_deref(), Some("lo"));
        assert_eq!(interface_with(Ipv4Addr::new(192, 0, 2, 1).into()).expect("it is asked"), None);
    }
}
