//! A request that is too large, and what it is answered.

use std::task::Waker;

use anywire_advice::Chain;
use anywire_http::Version;
use anywire_http::h1::DecodeError;
use anywire_http::h2::StreamId;
use anywire_mux::StreamWaker;

use super::session::{Parts, Session};
use super::stream::{Asks, Stage, Stream};
use crate::connection::Env;
use crate::refusal::{Refusal, RefusalKind};
use crate::timers::Timers;

impl Session {
    /// Answers a request whose head or trailers are too large. Its handler, if it has one, is cancelled.
    #[cold]
    pub(super) fn refuse(&mut self, id: StreamId, limit: &DecodeError, is_head: bool, env: &Env<'_>) {
        let (service, peer) = (env.service, env.connection.peer());
        service.counters.bad_requests.increment();
        (self.is_resting, self.idle_since) = (false, None);
        let mut exchange = match self.streams.remove(&id) {
            Some(mut stream) => {
                service.counters.abandoned.increment();
                let exchange = stream.exchange.take();
                service.dispatch.drop_contained(stream.endpoint, stream);
                exchange
            }
            None => service.dispatch.observers().begin_unknown(Version::HTTP_2, &peer),
        };
        let status = limit.status();
        tracing::debug!(status = status.as_u16(), cause = %limit, "a request cannot be read");
        let text = Chain(limit).for_peer().to_string();
        let refusal = Refusal::new(RefusalKind::TooLarge, status, &text).of(Some(&peer));
        let mut response = service.dispatch.word(None, &refusal);
        let parts = &mut Parts { link: &mut self.link, date: &self.date, service };
        let mut asks = if is_head { Asks::Head } else { Asks::Message };
        let stage = Self::respond(parts, id, &mut response, &mut asks, None, &mut exchange);
        if matches!(stage, Stage::Done) {
            self.written_whole(exchange);
            return self.finish(id, service);
        }
        let waker = Waker::from(StreamWaker::of(id, None, &self.woken));
        self.streams.insert(
            id,
            Box::new(Stream {
                stage,
                upload: None,
                context: None,
                endpoint: None,
                asks,
                exchange,
                waker,
                timers: Timers::default(),
                deadline: None,
            }),
        );
        self.changed.push(id);
        self.go_on(id, service);
    }
}
