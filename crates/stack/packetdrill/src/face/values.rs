//! What every function of the table needs: bytes, addresses and answers, from C and to C.

use std::ffi::{c_int, c_void};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use libc::{iovec, size_t, sockaddr, socklen_t};

use crate::call::{Answer, Call, Client, Errno, Reply};

/// Calls, on behalf of a function of the table.
///
/// # Safety
/// `userdata` is the one of a table that was filled here and not freed yet.
pub(super) unsafe fn call(userdata: *mut c_void, call: Call) -> Answer {
    // SAFETY: by the contract it points to the client that `packetdrill_interface_init` has leaked; it is only ever shared.
    let client = unsafe { &*userdata.cast::<Client>() };
    client.call(call)
}

/// An answer as a system call gives it: a number, or -1 and `errno`.
pub(super) fn number(answer: Answer) -> i64 {
    match answer {
        Ok(Reply::Number(number)) => number,
        Ok(Reply::Accepted { fd, .. }) => i64::from(fd),
        Ok(Reply::Bytes(bytes)) => bytes.len() as i64,
        Ok(Reply::Events(_) | Reply::Packet { .. }) => 0,
        Err(Errno(number)) => {
            // SAFETY: it points to this thread's `errno`, always.
            unsafe { *libc::__errno_location() = number };
            -1
        }
    }
}

pub(super) fn fault() -> i64 {
    number(Err(Errno(libc::EFAULT)))
}

/// Copies bytes in.
///
/// # Safety
/// `from` is null or points to `length` bytes.
pub(super) unsafe fn bytes_from(from: *const c_void, length: size_t) -> Option<Vec<u8>> {
    if from.is_null() {
        return (length == 0).then(Vec::new);
    }
    // SAFETY: by the contract, and it is not null.
    Some(unsafe { std::slice::from_raw_parts(from.cast::<u8>(), length) }.to_vec())
}

/// Copies the bytes that were read, and returns their number. A wrong `room` is the caller's fault.
///
/// # Safety
/// `to` is null or points to `room` bytes that no other code uses meanwhile.
pub(super) unsafe fn bytes_to(to: *mut c_void, room: size_t, answer: Answer) -> i64 {
    if let Ok(Reply::Bytes(bytes)) = &answer
        && !bytes.is_empty()
    {
        if to.is_null() {
            return fault();
        }
        let count = bytes.len().min(room);
        // SAFETY: by the contract there is room for so many; our own bytes are elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), count) };
    }
    number(answer)
}

/// The parts of a vector of buffers.
///
/// # Safety
/// `parts` is null or points to `count` of them.
pub(super) unsafe fn parts_of<'a>(parts: *const iovec, count: usize) -> &'a [iovec] {
    if parts.is_null() {
        return &[];
    }
    // SAFETY: by the contract, and it is not null.
    unsafe { std::slice::from_raw_parts(parts, count) }
}

/// Sends the contents of several buffers.
///
/// # Safety
/// As for [`call`], and each part points to as many bytes as it says.
pub(super) unsafe fn send_parts(userdata: *mut c_void, fd: c_int, parts: &[iovec], flags: c_int) -> i64 {
    let mut bytes = Vec::new();
    for part in parts {
        // SAFETY: by the contract.
        match unsafe { bytes_from(part.iov_base, part.iov_len) } {
            Some(more) => bytes.extend(more),
            None => return fault(),
        }
    }
    // SAFETY: by the contract.
    number(unsafe { call(userdata, Call::Send { fd, bytes, taken: 0, flags }) })
}

/// Receives into several buffers.
///
/// # Safety
/// As for [`call`], and each part points to as many bytes as it says. No other code uses them meanwhile.
pub(super) unsafe fn receive_parts(userdata: *mut c_void, fd: c_int, parts: &[iovec], flags: c_int) -> i64 {
    let length = parts.iter().map(|part| part.iov_len).sum();
    // SAFETY: by the contract.
    let answer = unsafe { call(userdata, Call::Receive { fd, length, flags }) };
    if let Ok(Reply::Bytes(bytes)) = &answer {
        let mut rest = &bytes[..];
        for part in parts {
            let (now, later) = rest.split_at(part.iov_len.min(rest.len()));
            // SAFETY: by the contract.
            unsafe { bytes_to(part.iov_base, part.iov_len, Ok(Reply::Bytes(now.to_vec()))) };
            rest = later;
        }
    }
    number(answer)
}

/// An address as C has it; one of IPv6 that stands for one of IPv4 becomes that.
///
/// # Safety
/// `address` is null or points to `length` bytes, of the kind that its family says.
pub(super) unsafe fn address_from(address: *const sockaddr, length: socklen_t) -> Option<SocketAddr> {
    if address.is_null() || (length as usize) < size_of::<libc::sa_family_t>() {
        return None;
    }
    // SAFETY: the family is the first field, and by the contract it is there.
    let family = c_int::from(unsafe { address.cast::<libc::sa_family_t>().read_unaligned() });
    let length = length as usize;
    match family {
        libc::AF_INET if length >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: the family says that it is one of these, and it is long enough.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from_bits(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddr::new(ip.into(), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 if length >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: the family says that it is one of these, and it is long enough.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some(SocketAddr::new(ip.to_canonical(), u16::from_be(v6.sin6_port)))
        }
        _ => None,
    }
}

/// Writes an address as C has it, if the caller wants it.
///
/// # Safety
/// Both are null, or `length` points to the number of bytes that `to` has room for.
pub(super) unsafe fn address_to(to: *mut sockaddr, length: *mut socklen_t, address: SocketAddr) {
    if to.is_null() || length.is_null() {
        return;
    }
    // SAFETY: by the contract.
    let room = unsafe { length.read() } as usize;
    // SAFETY: all bits zero are a value of these types.
    let (mut v4, mut v6): (libc::sockaddr_in, libc::sockaddr_in6) = unsafe { std::mem::zeroed() };
    let (from, count): (*const u8, usize) = match address {
        SocketAddr::V4(address) => {
            v4.sin_family = libc::AF_INET as libc::sa_family_t;
            v4.sin_port = address.port().to_be();
            v4.sin_addr.s_addr = address.ip().to_bits().to_be();
            ((&raw const v4).cast(), size_of::<libc::sockaddr_in>())
        }
        SocketAddr::V6(address) => {
            v6.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            v6.sin6_port = address.port().to_be();
            v6.sin6_addr.s6_addr = address.ip().octets();
            ((&raw const v6).cast(), size_of::<libc::sockaddr_in6>())
        }
    };
    // SAFETY: `from` shows one of the two above, `count` is its size, and `to` has room for as many as are copied.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to.cast(), count.min(room));
        length.write(count as socklen_t);
    }
}
