//! What both ends of a connection do in a transfer.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{Barrier, Semaphore};
use tokio::task::{JoinHandle, spawn_local};

use crate::hosts::{Host, Socket};
use crate::pattern::{PIECE, Pattern};
use crate::transfer::{KernelSaw, Manner, Outcome, Transfer};

/// What the connections of one end of a transfer have in common.
struct Work {
    transfer: Transfer,
    pattern: Pattern,
    read_bytes: Cell<u64>,
    began: Cell<Option<Instant>>,
    /// What had been read when the flow had found its rate, and when.
    steady_from: Cell<Option<(u64, Instant)>>,
    last_read: Cell<Option<Instant>>,
    kernel: RefCell<Option<KernelSaw>>,
    /// All connections are open before the first one ends.
    all_open: Barrier,
}

/// Listens, calls `is_listening`, and takes part in a transfer.
pub(crate) async fn listen<H: Host>(
    host: &H,
    at: SocketAddr,
    transfer: Transfer,
    is_listening: impl FnOnce() -> Result<()>,
) -> Result<Outcome> {
    let mut listener = host.listen(at).context("listening")?;
    is_listening()?;
    let work = Work::new(transfer);
    let mut tasks = Vec::new();
    for _ in 0..transfer.connections {
        let socket = H::accept(&mut listener).await.context("accepting")?;
        work.begin();
        let work = Rc::clone(&work);
        tasks.push(spawn_local(async move { work.listener(socket).await }));
    }
    finish(host, &work, tasks).await
}

/// Calls, and takes part in a transfer.
pub(crate) async fn call<H: Host>(host: &H, to: SocketAddr, transfer: Transfer) -> Result<Outcome> {
    let work = Work::new(transfer);
    work.begin();
    let opening = Rc::new(Semaphore::new(OPENING_MAX));
    let tasks = (0..transfer.connections as u64)
        .map(|number| {
            let (host, work, opening) = (host.clone(), Rc::clone(&work), Rc::clone(&opening));
            spawn_local(async move {
                let turn = opening.acquire().await.context("it is never closed")?;
                let socket = host.call(to).await.with_context(|| format!("call {number}"))?;
                drop(turn);
                work.caller(socket, number).await.with_context(|| format!("connection {number}"))
            })
        })
        .collect();
    finish(host, &work, tasks).await
}

async fn finish<H: Host>(host: &H, work: &Work, tasks: Vec<JoinHandle<Result<()>>>) -> Result<Outcome> {
    for task in tasks {
        task.await.context("a connection's task has panicked")??;
    }
    let began = work.began.get().unwrap_or_else(Instant::now);
    let steady = work.steady_from.get().zip(work.last_read.get());
    Ok(Outcome {
        seconds: began.elapsed().as_secs_f64(),
        read_bytes: work.read_bytes.get(),
        steady: steady
            .map(|((bytes, from), last)| (work.read_bytes.get() - bytes, (last - from).as_secs_f64())),
        kernel: *work.kernel.borrow(),
        engine: host.engine(),
    })
}

impl Work {
    fn new(transfer: Transfer) -> Rc<Self> {
        Rc::new(Self {
            transfer,
            pattern: Pattern::new(),
            read_bytes: Cell::new(0),
            began: Cell::new(None),
            steady_from: Cell::new(None),
            last_read: Cell::new(None),
            kernel: RefCell::new(None),
            all_open: Barrier::new(transfer.connections),
        })
    }

    fn begin(&self) {
        self.began.set(self.began.get().or_else(|| Some(Instant::now())));
    }

    /// The end that calls.
    async fn caller<S: Socket>(&self, mut socket: S, number: u64) -> Result<()> {
        let bytes = self.transfer.bytes;
        if self.transfer.connections > 1 {
            socket.write_all(&number.to_be_bytes()).await.context("saying its number")?;
        }
        match self.transfer.manner {
            Manner::InTurns => self.asks(&mut socket, number, bytes).await?,
            Manner::LateReaders(pause_ms) => {
                self.send(&mut socket, number, bytes).await?;
                tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                self.receive_all(&mut socket, number, bytes).await?;
            }
            Manner::IdleBefore(pause_ms) => {
                socket.keep_alive().context("keep-alive")?;
                tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                self.asks(&mut socket, number, bytes).await?;
            }
            Manner::Echo => {
                let (mut reader, mut writer) = tokio::io::split(socket);
                let sending = self.send(&mut writer, number, bytes);
                let receiving = self.receive_all(&mut reader, number, bytes);
                let (sent, received) = tokio::join!(sending, receiving);
                received.and(sent)?;
                socket = reader.unsplit(writer);
            }
            Manner::CallerAborts => {
                self.send_open(&mut socket, number, bytes / 2).await?;
                // Until the other end has read it: a reset overtakes nothing.
                ensure!(socket.read_u8().await.context("waiting for the reader")? == READ_IT);
                self.note(&socket);
                self.all_open.wait().await;
                socket.reset_when_dropped().context("a reset")?;
                return Ok(());
            }
            Manner::ListenerAborts => {
                self.send_open(&mut socket, number, bytes / 2).await?;
                return must_be_reset(socket.read(&mut [0; 1]).await);
            }
            Manner::Upload(duration_ms) => self.send_for(&mut socket, duration_ms).await?,
            Manner::Download(duration_ms) => self.receive_for(&mut socket, duration_ms).await?,
        }
        self.end(&socket).await
    }

    /// The end that listens.
    async fn listener<S: Socket>(&self, mut socket: S) -> Result<()> {
        let bytes = self.transfer.bytes;
        let number = if self.transfer.connections > 1 {
            socket.read_u64().await.context("hearing its number")?
        } else {
            0
        };
        match self.transfer.manner {
            Manner::InTurns => self.answers(&mut socket, number, bytes).await?,
            Manner::LateReaders(pause_ms) => {
                tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                self.answers(&mut socket, number, bytes).await?;
            }
            Manner::IdleBefore(_) => {
                socket.keep_alive().context("keep-alive")?;
                self.answers(&mut socket, number, bytes).await?;
            }
            Manner::Echo => {
                let (reader, writer) = tokio::io::split(socket);
                socket = self.echo(reader, writer, number).await?;
            }
            Manner::CallerAborts => {
                self.receive(&mut socket, number, bytes / 2).await?;
                socket.write_u8(READ_IT).await.context("answering")?;
                self.note(&socket);
                return must_be_reset(socket.read(&mut [0; 1]).await);
            }
            Manner::ListenerAborts => {
                self.receive(&mut socket, number, bytes / 2).await?;
                self.note(&socket);
                socket.reset_when_dropped().context("a reset")?;
                return Ok(());
            }
            Manner::Upload(duration_ms) => self.receive_for(&mut socket, duration_ms).await?,
            Manner::Download(duration_ms) => self.send_for(&mut socket, duration_ms).await?,
        }
        self.end(&socket).await
    }

    /// Sends, ends its direction, and reads the answer.
    async fn asks<S: Socket>(&self, socket: &mut S, number: u64, bytes: u64) -> Result<()> {
        self.send(socket, number, bytes).await?;
        self.receive_all(socket, number, bytes).await
    }

    /// Reads to the end, and answers only then.
    async fn answers<S: Socket>(&self, socket: &mut S, number: u64, bytes: u64) -> Result<()> {
        self.receive_all(socket, number, bytes).await?;
        self.send(socket, number, bytes).await
    }

    /// Notes what the kernel says, and keeps the connection until all are open.
    async fn end(&self, socket: &impl Socket) -> Result<()> {
        self.note(socket);
        self.all_open.wait().await;
        Ok(())
    }

    fn note(&self, socket: &impl Socket) {
        let mut kernel = self.kernel.borrow_mut();
        *kernel = kernel.or_else(|| socket.kernel());
    }

    /// Sends all of it, and ends its direction.
    async fn send(&self, to: &mut (impl AsyncWrite + Unpin), number: u64, bytes: u64) -> Result<()> {
        self.send_open(to, number, bytes).await?;
        to.shutdown().await.context("ending its direction")
    }

    async fn send_open(&self, to: &mut (impl AsyncWrite + Unpin), number: u64, bytes: u64) -> Result<()> {
        let mut place = 0;
        while place < bytes {
            let length = usize::try_from(bytes - place).unwrap_or(PIECE).min(PIECE);
            let written = to.write(self.pattern.at(number, place, length)).await;
            let written = written.with_context(|| format!("sending at {place} of {bytes}"))?;
            ensure!(written > 0, "nothing was taken at {place} of {bytes}");
            place += written as u64;
        }
        Ok(())
    }

    /// Reads all of it, and then the end.
    async fn receive_all(&self, from: &mut (impl AsyncRead + Unpin), number: u64, bytes: u64) -> Result<()> {
        self.receive(from, number, bytes).await?;
        let more = from.read(&mut [0; 1]).await.context("waiting for the end")?;
        ensure!(more == 0, "more than {bytes} bytes came");
        Ok(())
    }

    async fn receive(&self, from: &mut (impl AsyncRead + Unpin), number: u64, bytes: u64) -> Result<()> {
        let mut buffer = vec![0; READ_BYTES.min(bytes.max(1) as usize)];
        let mut place = 0;
        while place < bytes {
            let wanted = buffer.len().min(usize::try_from(bytes - place).unwrap_or(usize::MAX));
            let count = from.read(&mut buffer[..wanted]).await;
            let count = count.with_context(|| format!("reading at {place} of {bytes}"))?;
            ensure!(count > 0, "it ended at {place} of {bytes}");
            self.check(number, place, &buffer[..count])?;
            place += count as u64;
        }
        Ok(())
    }

    async fn echo<S: Socket>(
        &self,
        mut reader: ReadHalf<S>,
        mut writer: WriteHalf<S>,
        number: u64,
    ) -> Result<S> {
        let (mut buffer, mut place) = (vec![0; READ_BYTES], 0);
        loop {
            let count = reader.read(&mut buffer).await.with_context(|| format!("reading at {place}"))?;
            if count == 0 {
                break;
            }
            self.check(number, place, &buffer[..count])?;
            writer.write_all(&buffer[..count]).await.with_context(|| format!("sending back at {place}"))?;
            place += count as u64;
        }
        writer.shutdown().await.context("ending its direction")?;
        Ok(reader.unsplit(writer))
    }

    /// Sends for so long, and ends its direction. Waits until the other end has read all of it.
    async fn send_for<S: Socket>(&self, socket: &mut S, duration_ms: u64) -> Result<()> {
        let (end, mut place) = (Instant::now() + Duration::from_millis(duration_ms), 0);
        while Instant::now() < end {
            let written = socket.write(self.pattern.at(0, place, PIECE));
            let left = end.saturating_duration_since(Instant::now());
            match tokio::time::timeout(left, written).await {
                Ok(written) => place += written.with_context(|| format!("sending at {place}"))? as u64,
                Err(_) => break,
            }
        }
        socket.shutdown().await.context("ending its direction")?;
        let more = socket.read(&mut [0; 1]).await.context("waiting for the reader")?;
        ensure!(more == 0, "the reader has sent something");
        Ok(())
    }

    /// Reads to the end, and notes how much came once the flow had found its rate.
    async fn receive_for<S: Socket>(&self, socket: &mut S, duration_ms: u64) -> Result<()> {
        let (mut buffer, mut place) = (vec![0; READ_BYTES], 0);
        let now = Instant::now();
        let (steady, end) =
            (now + Duration::from_millis(duration_ms) / 4, now + Duration::from_millis(duration_ms));
        loop {
            let count = socket.read(&mut buffer).await.with_context(|| format!("reading at {place}"))?;
            if count == 0 {
                break;
            }
            self.check(0, place, &buffer[..count])?;
            place += count as u64;
            let now = Instant::now();
            if self.steady_from.get().is_none() && now >= steady {
                self.steady_from.set(Some((self.read_bytes.get(), now)));
            }
            // What was on its way at the end of the time is not counted, and neither is its time.
            if now < end {
                self.last_read.set(Some(now));
            } else {
                self.read_bytes.set(self.read_bytes.get() - count as u64);
            }
        }
        socket.shutdown().await.context("ending its direction")
    }

    fn check(&self, number: u64, place: u64, bytes: &[u8]) -> Result<()> {
        if !self.pattern.is_at(number, place, bytes) {
            let wrong = (0..bytes.len() as u64)
                .find(|&at| !self.pattern.is_at(number, place + at, &bytes[at as usize..at as usize + 1]));
            bail!("a byte is wrong at {}", place + wrong.unwrap_or(0));
        }
        self.read_bytes.set(self.read_bytes.get() + bytes.len() as u64);
        Ok(())
    }
}

fn must_be_reset(read: io::Result<usize>) -> Result<()> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
        other => bail!("the reset came as {other:?}"),
    }
}

/// What a reader says once it has read what came before a reset.
const READ_IT: u8 = 6;

/// Bytes that are read at once, at most.
const READ_BYTES: usize = 1 << 18;

/// Connections that are being opened at the same time, at most.
const OPENING_MAX: usize = 256;
