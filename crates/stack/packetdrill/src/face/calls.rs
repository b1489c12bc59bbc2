//! The functions of the table, one for each system call.

use std::ffi::{c_int, c_longlong, c_uint, c_ulong, c_void};

use libc::{iovec, msghdr, nfds_t, pollfd, size_t, sockaddr, socklen_t, ssize_t, timeval};

use super::values::{
    address_from, address_to, bytes_from, bytes_to, call, fault, number, parts_of, receive_parts, send_parts,
};
use crate::call::{Call, Client, Errno, Reply, Wish};

pub(super) unsafe extern "C" fn free(userdata: *mut c_void) {
    // SAFETY: it is the client that `packetdrill_interface_init` has leaked, and packetdrill calls this once, as the last.
    drop(unsafe { Box::from_raw(userdata.cast::<Client>()) });
}

pub(super) unsafe extern "C" fn socket(
    userdata: *mut c_void,
    _domain: c_int,
    kind: c_int,
    _protocol: c_int,
) -> c_int {
    if kind & 0xf != libc::SOCK_STREAM {
        return number(Err(Errno(libc::EPROTONOSUPPORT))) as c_int;
    }
    // SAFETY: packetdrill hands over the pointer of the table; so it is in all that follows.
    number(unsafe { call(userdata, Call::Socket) }) as c_int
}

pub(super) unsafe extern "C" fn bind(
    userdata: *mut c_void,
    fd: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> c_int {
    // SAFETY: packetdrill hands over what a program hands to `bind`.
    let Some(address) = (unsafe { address_from(address, length) }) else {
        return number(Err(Errno(libc::EAFNOSUPPORT))) as c_int;
    };
    // SAFETY: the pointer of the table.
    number(unsafe { call(userdata, Call::Bind { fd, address }) }) as c_int
}

pub(super) unsafe extern "C" fn listen(userdata: *mut c_void, fd: c_int, _backlog: c_int) -> c_int {
    // SAFETY: the pointer of the table.
    number(unsafe { call(userdata, Call::Listen { fd }) }) as c_int
}

pub(super) unsafe extern "C" fn accept(
    userdata: *mut c_void,
    fd: c_int,
    to: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    // SAFETY: the pointer of the table.
    let answer = unsafe { call(userdata, Call::Accept { fd }) };
    if let Ok(Reply::Accepted { peer, .. }) = &answer {
        // SAFETY: packetdrill hands over what a program hands to `accept`.
        unsafe { address_to(to, length, *peer) };
    }
    number(answer) as c_int
}

pub(super) unsafe extern "C" fn connect(
    userdata: *mut c_void,
    fd: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> c_int {
    // SAFETY: packetdrill hands over what a program hands to `connect`.
    let Some(address) = (unsafe { address_from(address, length) }) else {
        return number(Err(Errno(libc::EAFNOSUPPORT))) as c_int;
    };
    // SAFETY: the pointer of the table.
    number(unsafe { call(userdata, Call::Connect { fd, address }) }) as c_int
}

pub(super) unsafe extern "C" fn read(
    userdata: *mut c_void,
    fd: c_int,
    to: *mut c_void,
    room: size_t,
) -> ssize_t {
    // SAFETY: `read` has the arguments of `recv`, without flags.
    unsafe { recv(userdata, fd, to, room, 0) }
}

pub(super) unsafe extern "C" fn readv(
    userdata: *mut c_void,
    fd: c_int,
    parts: *const iovec,
    count: c_int,
) -> ssize_t {
    // SAFETY: packetdrill hands over what a program hands to `readv`, and the pointer of the table.
    unsafe { receive_parts(userdata, fd, parts_of(parts, count.max(0) as usize), 0) as ssize_t }
}

pub(super) unsafe extern "C" fn recv(
    userdata: *mut c_void,
    fd: c_int,
    to: *mut c_void,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the pointer of the table.
    let answer = unsafe { call(userdata, Call::Receive { fd, length: room, flags }) };
    // SAFETY: packetdrill hands over what a program hands to `recv`.
    unsafe { bytes_to(to, room, answer) as ssize_t }
}

pub(super) unsafe extern "C" fn recvfrom(
    userdata: *mut c_void,
    fd: c_int,
    to: *mut c_void,
    room: size_t,
    flags: c_int,
    _address: *mut sockaddr,
    _length: *mut socklen_t,
) -> ssize_t {
    // SAFETY: the arguments of `recv`. A connection does not return the address.
    unsafe { recv(userdata, fd, to, room, flags) }
}

pub(super) unsafe extern "C" fn recvmsg(
    userdata: *mut c_void,
    fd: c_int,
    message: *mut msghdr,
    flags: c_int,
) -> ssize_t {
    // SAFETY: packetdrill hands over what a program hands to `recvmsg`: a message, alone its own during the call.
    let Some(message) = (unsafe { message.as_mut() }) else { return fault() as ssize_t };
    message.msg_controllen = 0;
    message.msg_flags = 0;
    // SAFETY: as above, and the pointer of the table.
    unsafe { receive_parts(userdata, fd, parts_of(message.msg_iov, message.msg_iovlen), flags) as ssize_t }
}

pub(super) unsafe extern "C" fn write(
    userdata: *mut c_void,
    fd: c_int,
    from: *const c_void,
    length: size_t,
) -> ssize_t {
    // SAFETY: `write` has the arguments of `send`, without flags.
    unsafe { send(userdata, fd, from, length, 0) }
}

pub(super) unsafe extern "C" fn writev(
    userdata: *mut c_void,
    fd: c_int,
    parts: *const iovec,
    count: c_int,
) -> ssize_t {
    // SAFETY: packetdrill hands over what a program hands to `writev`, and the pointer of the table.
    unsafe { send_parts(userdata, fd, parts_of(parts, count.max(0) as usize), 0) as ssize_t }
}

pub(super) unsafe extern "C" fn send(
    userdata: *mut c_void,
    fd: c_int,
    from: *const c_void,
    length: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: packetdrill hands over what a program hands to `send`.
    let Some(bytes) = (unsafe { bytes_from(from, length) }) else { return fault() as ssize_t };
    // SAFETY: the pointer of the table.
    number(unsafe { call(userdata, Call::Send { fd, bytes, taken: 0, flags }) }) as ssize_t
}

pub(super) unsafe extern "C" fn sendto(
    userdata: *mut c_void,
    fd: c_int,
    from: *const c_void,
    length: size_t,
    flags: c_int,
    _address: *const sockaddr,
    _address_length: socklen_t,
) -> ssize_t {
    // SAFETY: the arguments of `send`; on a connection the address has no meaning.
    unsafe { send(userdata, fd, from, length, flags) }
}

pub(super) unsafe extern "C" fn sendmsg(
    userdata: *mut c_void,
    fd: c_int,
    message: *const msghdr,
    flags: c_int,
) -> ssize_t {
    // SAFETY: packetdrill hands over what a program hands to `sendmsg`.
    let Some(message) = (unsafe { message.as_ref() }) else { return fault() as ssize_t };
    // SAFETY: as above, and the pointer of the table.
    unsafe { send_parts(userdata, fd, parts_of(message.msg_iov, message.msg_iovlen), flags) as ssize_t }
}

/// In C it is variadic. On Linux on x86-64 and AArch64, a third argument is passed as if it were declared. Without one
/// its value is arbitrary, and the commands that take none do not read it.
pub(super) unsafe extern "C" fn fcntl(
    userdata: *mut c_void,
    fd: c_int,
    command: c_int,
    argument: c_int,
) -> c_int {
    // SAFETY: the pointer of the table.
    number(unsafe { call(userdata, Call::Control { fd, command, argument }) }) as c_int
}

/// See [`fcntl`] for its third argument.
pub(super) unsafe extern "C" fn ioctl(
    userdata: *mut c_void,
    fd: c_int,
    request: c_ulong,
    to: *mut c_int,
) -> c_int {
    // SAFETY: the pointer of the table.
    match unsafe { call(userdata, Call::Inquire { fd, request }) } {
        Ok(Reply::Number(value)) => {
            // SAFETY: the requests that are answered take a pointer to a number.
            unsafe { to.write(value as c_int) };
            0
        }
        answer => number(answer) as c_int,
    }
}

pub(super) unsafe extern "C" fn close(userdata: *mut c_void, fd: c_int) -> c_int {
    // SAFETY: the pointer of the table.
    number(unsafe { call(userdata, Call::Close { fd }) }) as c_int
}

pub(super) unsafe extern "C" fn shutdown(userdata: *mut c_void, fd: c_int, how: c_int) -> c_int {
    // SAFETY: the pointer of the table.
    number(unsafe { call(userdata, Call::Shutdown { fd, how }) }) as c_int
}

pub(super) unsafe extern "C" fn getsockopt(
    userdata: *mut c_void,
    fd: c_int,
    level: c_int,
    name: c_int,
    to: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    // SAFETY: the pointer of the table.
    match unsafe { call(userdata, Call::Option { fd, level, name }) } {
        Ok(Reply::Number(value)) => {
            let value = (value as c_int).to_ne_bytes();
            // SAFETY: packetdrill hands over what a program hands to `getsockopt`: `length` says what `to` has room for.
            unsafe {
                let count = (length.read() as usize).min(value.len());
                std::ptr::copy_nonoverlapping(value.as_ptr(), to.cast(), count);
                length.write(count as socklen_t);
            }
            0
        }
        answer => number(answer) as c_int,
    }
}

pub(super) unsafe extern "C" fn setsockopt(
    userdata: *mut c_void,
    fd: c_int,
    level: c_int,
    name: c_int,
    from: *const c_void,
    length: socklen_t,
) -> c_int {
    // SAFETY: packetdrill hands over what a program hands to `setsockopt`.
    let Some(bytes) = (unsafe { bytes_from(from, length as usize) }) else { return fault() as c_int };
    // Some options may be as short as a byte.
    let mut value = [0; 4];
    let count = bytes.len().min(value.len());
    value[..count].copy_from_slice(&bytes[..count]);
    let value = c_int::from_ne_bytes(value);
    // SAFETY: the pointer of the table.
    number(unsafe { call(userdata, Call::SetOption { fd, level, name, value }) }) as c_int
}

pub(super) unsafe extern "C" fn poll(
    userdata: *mut c_void,
    entries: *mut pollfd,
    count: nfds_t,
    timeout_millis: c_int,
) -> c_int {
    // SAFETY: packetdrill hands over what a program hands to `poll`: so many entries, its own during the call.
    let entries = unsafe { std::slice::from_raw_parts_mut(entries, count as usize) };
    let wish = |entry: &pollfd| Wish { fd: entry.fd, events: entry.events as u16 as u32, data: 0 };
    let wishes = entries.iter().map(wish).collect();
    // SAFETY: the pointer of the table.
    match unsafe { call(userdata, Call::Poll { wishes, timeout_millis }) } {
        Ok(Reply::Events(granted)) => {
            for (entry, wish) in entries.iter_mut().zip(&granted) {
                entry.revents = wish.events as i16;
            }
            granted.iter().filter(|wish| wish.events != 0).count() as c_int
        }
        answer => number(answer) as c_int,
    }
}

pub(super) unsafe extern "C" fn netdev_send(
    userdata: *mut c_void,
    from: *const c_void,
    length: size_t,
) -> c_int {
    // SAFETY: packetdrill's contract: `from` points to a packet of this length.
    let Some(packet) = (unsafe { bytes_from(from, length) }) else { return -1 };
    // SAFETY: the pointer of the table.
    number(unsafe { call(userdata, Call::Inject { packet }) }) as c_int
}

pub(super) unsafe extern "C" fn netdev_receive(
    userdata: *mut c_void,
    to: *mut c_void,
    count: *mut size_t,
    micros: *mut c_longlong,
) -> c_int {
    // SAFETY: the pointer of the table.
    let Ok(Reply::Packet { bytes, micros: at }) = (unsafe { call(userdata, Call::NextPacket) }) else {
        return -1;
    };
    // SAFETY: packetdrill's contract: `count` says how many bytes `to` has room for, and all three are its own.
    unsafe {
        let length = bytes.len().min(count.read());
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), length);
        count.write(length);
        micros.write(at as c_longlong);
    }
    0
}

pub(super) unsafe extern "C" fn usleep(userdata: *mut c_void, micros: c_uint) -> c_int {
    // SAFETY: the pointer of the table.
    number(unsafe { call(userdata, Call::Sleep { micros: u64::from(micros) }) }) as c_int
}

pub(super) unsafe extern "C" fn gettimeofday(
    userdata: *mut c_void,
    to: *mut timeval,
    _zone: *mut c_void,
) -> c_int {
    // SAFETY: the pointer of the table.
    let micros = number(unsafe { call(userdata, Call::Now) });
    // SAFETY: packetdrill hands over what a program hands to `gettimeofday`.
    unsafe { to.write(timeval { tv_sec: micros / 1_000_000, tv_usec: micros % 1_000_000 }) };
    0
}

pub(super) unsafe extern "C" fn epoll_create(userdata: *mut c_void, _size: c_int) -> c_int {
    // SAFETY: the pointer of the table.
    number(unsafe { call(userdata, Call::EpollCreate) }) as c_int
}

pub(super) unsafe extern "C" fn epoll_ctl(
    userdata: *mut c_void,
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut libc::epoll_event,
) -> c_int {
    let wish = if event.is_null() {
        Wish { fd, events: 0, data: 0 }
    } else {
        // SAFETY: packetdrill hands over what a program hands to `epoll_ctl`, and it is not null.
        let event = unsafe { event.read_unaligned() };
        Wish { fd, events: event.events, data: event.u64 }
    };
    // SAFETY: the pointer of the table.
    number(unsafe { call(userdata, Call::EpollControl { epoll, operation, wish }) }) as c_int
}

pub(super) unsafe extern "C" fn epoll_wait(
    userdata: *mut c_void,
    epoll: c_int,
    to: *mut libc::epoll_event,
    count_max: c_int,
    timeout_millis: c_int,
) -> c_int {
    let count_max = count_max.max(0) as usize;
    // SAFETY: the pointer of the table.
    match unsafe { call(userdata, Call::EpollWait { epoll, count_max, timeout_millis }) } {
        Ok(Reply::Events(granted)) => {
            for (place, wish) in granted.iter().enumerate() {
                let event = libc::epoll_event { events: wish.events, u64: wish.data };
                // SAFETY: there is room for `count_max` of them, and not more were granted.
                unsafe { to.add(place).write_unaligned(event) };
            }
            granted.len() as c_int
        }
        answer => number(answer) as c_int,
    }
}

pub(super) unsafe extern "C" fn pipe(_userdata: *mut c_void, _ends: *mut c_int) -> c_int {
    number(Err(Errno(libc::ENOSYS))) as c_int
}

pub(super) unsafe extern "C" fn splice(
    _userdata: *mut c_void,
    _from: c_int,
    _from_offset: *mut i64,
    _to: c_int,
    _to_offset: *mut i64,
    _length: size_t,
    _flags: c_uint,
) -> c_int {
    number(Err(Errno(libc::ENOSYS))) as c_int
}
