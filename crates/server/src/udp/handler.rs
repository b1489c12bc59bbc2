//! What a program does with datagrams.

use anywire_wire::udp::{Cut, Datagram};

use super::replies::Replies;

/// Handles the datagrams of one loop. A closure of two arguments is one. It is made on its loop and stays there, so it may keep
/// state without a lock. It must not block: the loop's other tasks would wait.
///
/// ```
/// use anywire_server::udp::{Cut, Datagram, DatagramHandler, Replies};
///
/// /// Answers each batch with the number of its datagrams.
/// struct Counting;
///
/// impl DatagramHandler for Counting {
///     fn datagram(&mut self, _: &Datagram<'_>, _: &mut Replies<'_>) {}
///
///     fn batch(&mut self, datagrams: &mut dyn Iterator<Item = Datagram<'_>>, replies: &mut Replies<'_>) {
///         let all: Vec<_> = datagrams.collect();
///         if let Some(last) = all.last() {
///             let _ = replies.send(last, all.len().to_string().as_bytes());
///         }
///     }
///
///     fn cut(&mut self, cut: Cut) {
///         eprintln!("{cut}");
///     }
/// }
/// # let _ = anywire_server::udp::UdpServer::new(|| Counting);
/// ```
pub trait DatagramHandler: 'static {
    /// Handles one datagram, which arrived whole.
    fn datagram(&mut self, datagram: &Datagram<'_>, replies: &mut Replies<'_>);

    /// Handles all datagrams that one system call has given; as it stands, one after the other by
    /// [`datagram`](Self::datagram). Those that were cut or over the peer's rate are not among them.
    fn batch(&mut self, datagrams: &mut dyn Iterator<Item = Datagram<'_>>, replies: &mut Replies<'_>) {
        for datagram in datagrams {
            self.datagram(&datagram, replies);
        }
    }

    /// Hears of a datagram whose end was dropped, because it was longer than
    /// [`UdpOptions::datagram_bytes_max`](super::UdpOptions::datagram_bytes_max). It is counted, and nothing else is done.
    fn cut(&mut self, cut: Cut) {
        let _ = cut;
    }
}

impl<F> DatagramHandler for F
where
    F: FnMut(&Datagram<'_>, &mut Replies<'_>) + 'static,
{
    fn datagram(&mut self, datagram: &Datagram<'_>, replies: &mut Replies<'_>) {
        self(datagram, replies);
    }
}
