//! The least that a request costs over kernel sockets: a loop in C style that parses nothing, as the ladder's, at any address, and that
//! closes a connection after its answer if it is told to.

use std::io::{ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use anyhow::Result;
use rustix::event::epoll::{CreateFlags, Event, EventData, EventFlags, add, create, wait};
use socket2::{Domain, Socket, Type};

use super::servers::response;
use crate::servers::{Announce, BACKLOG};

pub(super) fn serve(at: SocketAddr, closes: bool) -> Result<()> {
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&at.into())?;
    socket.listen(BACKLOG)?;
    let listener = TcpListener::from(socket);
    let epoll = create(CreateFlags::CLOEXEC)?;
    let own = listener.as_raw_fd() as u64;
    add(&epoll, &listener, EventData::new_u64(own), EventFlags::IN)?;
    Announce.listening(listener.local_addr()?);
    let response = response(closes);
    let mut connections: Vec<Option<TcpStream>> = Vec::new();
    let mut events = [MaybeUninit::<Event>::uninit(); 512];
    let mut input = vec![0; 16_384];
    loop {
        let (ready, _) = wait(&epoll, &mut events, None)?;
        for event in &*ready {
            let number = event.data.u64();
            if number == own {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    let number = stream.as_raw_fd() as usize;
                    add(&epoll, &stream, EventData::new_u64(number as u64), EventFlags::IN)?;
                    connections.resize_with(connections.len().max(number + 1), || None);
                    connections[number] = Some(stream);
                }
                continue;
            }
            let Some(Some(stream)) = connections.get_mut(number as usize) else { continue };
            let is_over = match stream.read(&mut input) {
                Ok(0) => true,
                // A small answer always finds room: nobody pipelines here.
                Ok(_) => stream.write(&response).is_err() || closes,
                Err(error) => error.kind() != ErrorKind::WouldBlock,
            };
            if is_over {
                connections[number as usize] = None;
            }
        }
    }
}
