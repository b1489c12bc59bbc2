//! The ways that are connections of anywire, each end on a loop of its own.

use std::io;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anywire_loops::{Loops, clock};
use anywire_sys::cpu;
use anywire_wire::{Address, Connection, Dialer, ListenOptions, Listener, wires};

use crate::measure::{BothCpu, Counted, Job, SENDS_PER_LOOK, WARM_UP_SHARE, message};
use crate::plan::{Pattern, Way};

/// Measures one row. The first loop asks, the second one answers.
pub(crate) fn run(job: &Job, [here, there]: &[Loops; 2]) -> io::Result<Counted> {
    let (scheme, options) = match job.way {
        Way::TcpLoop => ("tcp", ""),
        Way::UnixLoop => ("unix", ""),
        Way::ShmSpinLoop => ("shm", SPIN),
        _ => ("shm", ""),
    };
    let scratch = wires().find(|wire| wire.scheme() == scheme).and_then(|wire| wire.scratch());
    let scratch = scratch.ok_or(io::ErrorKind::Unsupported)?;
    let with_options =
        |address: &Address| format!("{address}{options}").parse::<Address>().map_err(io::Error::other);
    let (told, answered) = mpsc::channel();
    let (tell_thread, thread) = mpsc::channel();
    let listener = Listener::bind(with_options(&scratch)?, &ListenOptions::default(), there)
        .map_err(io::Error::other)?;
    let (of_answer, of_ask) = (job.clone(), job.clone());
    let listening = listener.serve(move |connection| {
        let (job, told, tell_thread) = (of_answer.clone(), told.clone(), tell_thread.clone());
        drop(anywire_loops::spawn(async move {
            let _ = tell_thread.send(cpu::thread_id());
            let _ = told.send(answer(job, connection).await);
        }));
    });
    let address = with_options(listening.local())?;
    let asked = here.get(0).spawn(move || async move {
        ask(of_ask, Dialer::default().dial(&address).await.map_err(io::Error::other)?, thread).await
    });
    let mut counted = asked.wait().map_err(io::Error::other)??;
    let answered = answered.recv().map_err(io::Error::other)??;
    if job.pattern == Pattern::Stream {
        counted.there_cpu = answered.cpu;
        counted.messages = answered.bytes / job.size_bytes as u64;
        counted.elapsed = answered.elapsed;
    }
    Ok(counted)
}

fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

async fn ask(job: Job, mut connection: Connection, other: mpsc::Receiver<i32>) -> io::Result<Counted> {
    let message = message(job.size_bytes);
    let mut back = vec![0; job.size_bytes];
    // The other end begins to count when it has this. It has told its thread before.
    connection.write_all(&[0]).await?;
    read_whole(&mut connection, &mut [0]).await?;
    let other = other.recv().map_err(io::Error::other)?;
    let mut counted = Counted::default();
    let warm = clock::after(Instant::now(), job.duration / WARM_UP_SHARE);
    while job.pattern == Pattern::PingPong && Instant::now() < warm && !job.stop.is_stopped() {
        connection.write_all(&message).await?;
        read_whole(&mut connection, &mut back).await?;
    }
    let start = Instant::now();
    let used = BothCpu::since_now(other)?;
    let over = clock::after(start, job.duration);
    let mut now = Instant::now();
    while now < over && !job.stop.is_stopped() {
        if job.pattern == Pattern::PingPong {
            connection.write_all(&message).await?;
            read_whole(&mut connection, &mut back).await?;
            let then = std::mem::replace(&mut now, Instant::now());
            counted.latency.record(now - then);
            counted.messages += 2;
        } else {
            for _ in 0..SENDS_PER_LOOK {
                connection.write_all(&message).await?;
            }
            now = Instant::now();
        }
    }
    (counted.here_cpu, counted.there_cpu) = used.until_now()?;
    counted.elapsed = start.elapsed();
    counted.is_unchanged = job.pattern == Pattern::Stream || back == message;
    Ok(counted)
}

struct Answered {
    bytes: u64,
    elapsed: Duration,
    cpu: Duration,
}

async fn answer(job: Job, mut connection: Connection) -> io::Result<Answered> {
    let mut first = [0];
    read_whole(&mut connection, &mut first).await?;
    connection.write_all(&first).await?;
    let mut message = vec![0; job.size_bytes];
    let mut buffer = vec![0; BUFFER_BYTES];
    let start = Instant::now();
    let before = cpu::current_thread_cpu()?.total();
    let mut bytes = 0;
    loop {
        let read = match job.pattern {
            // Whole messages, as the blocking ends do it.
            Pattern::PingPong => match read_whole(&mut connection, &mut message).await {
                Ok(()) => job.size_bytes,
                Err(end) if is_closed(&end) => 0,
                Err(error) => return Err(error),
            },
            Pattern::Stream => connection.read(&mut buffer).await?,
        };
        if read == 0 {
            break;
        }
        bytes += read as u64;
        if job.pattern == Pattern::PingPong {
            connection.write_all(&message).await?;
        }
    }
    let cpu = cpu::current_thread_cpu()?.total() - before;
    Ok(Answered { bytes, elapsed: start.elapsed(), cpu })
}

async fn read_whole(connection: &mut Connection, message: &mut [u8]) -> io::Result<()> {
    let mut at = 0;
    while at < message.len() {
        match connection.read(&mut message[at..]).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => at += read,
        }
    }
    Ok(())
}

/// Far above any answer within this machine, so that an end sleeps only if its peer does not run.
const SPIN: &str = "?spin=200us";
const BUFFER_BYTES: usize = 64 * 1024;
