//! Messages on a connection: a length in four bytes, the highest first, and so many bytes of JSON.

use std::time::Duration;

use anywire_wire::Connection;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::agents::error::LinkError;

/// A connection between a leader and an agent.
pub(crate) struct Link {
    connection: Connection,
    /// What has come of the next message.
    input: Vec<u8>,
    /// The longest message that may come.
    pub(crate) limit_bytes: usize,
}

impl Link {
    pub(crate) fn new(connection: Connection, limit_bytes: usize) -> Self {
        Self { connection, input: Vec::new(), limit_bytes }
    }

    /// The address of the other end.
    pub(crate) fn peer(&self) -> String {
        self.connection.peer().to_string()
    }

    /// Sends a message, if the other end takes it in time.
    pub(crate) async fn send(&mut self, message: &impl Serialize, within: Duration) -> Result<(), LinkError> {
        let json = serde_json::to_vec(message).map_err(LinkError::NotOurs)?;
        let too_long = LinkError::TooLong { bytes: json.len() as u64, limit_bytes: u32::MAX as usize };
        let length = u32::try_from(json.len()).map_err(|_| too_long)?;
        let frame = [&length.to_be_bytes(), &json[..]].concat();
        let sent = tokio::time::timeout(within, self.connection.write_all(&frame)).await;
        sent.map_err(|_| LinkError::Silent { after: within })?.map_err(LinkError::Broken)
    }

    /// The next message, if it comes in time. What has come of it is kept if this is given up.
    pub(crate) async fn receive<M: DeserializeOwned>(&mut self, within: Duration) -> Result<M, LinkError> {
        let received = tokio::time::timeout(within, self.next()).await;
        received.map_err(|_| LinkError::Silent { after: within })?
    }

    /// The next message, whenever it comes.
    pub(crate) async fn next<M: DeserializeOwned>(&mut self) -> Result<M, LinkError> {
        let mut some = [0; 16 * 1024];
        loop {
            if let Some(length) = whole(&self.input, self.limit_bytes)? {
                let message = serde_json::from_slice(&self.input[LENGTH_BYTES..length]);
                self.input.drain(..length);
                return message.map_err(LinkError::NotOurs);
            }
            match self.connection.read(&mut some).await.map_err(LinkError::Broken)? {
                0 => return Err(LinkError::Closed),
                read => self.input.extend_from_slice(&some[..read]),
            }
        }
    }

    /// Waits for the other end to close, so that closing this one takes away nothing that is still on its way there.
    pub(crate) async fn closed_by_peer(&mut self, within: Duration) {
        let end = async {
            let mut some = [0; 1024];
            while matches!(self.connection.read(&mut some).await, Ok(1..)) {}
        };
        // A peer that does not close is left.
        let _ = tokio::time::timeout(within, end).await;
    }
}

/// The length of the first message with its four bytes, if it is there as a whole.
pub(super) fn whole(input: &[u8], limit_bytes: usize) -> Result<Option<usize>, LinkError> {
    let Some((length, rest)) = input.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length);
    // Refused by its length alone: nothing of it is kept.
    match usize::try_from(length) {
        Ok(length) if length <= limit_bytes => Ok((rest.len() >= length).then_some(LENGTH_BYTES + length)),
        _ => Err(LinkError::TooLong { bytes: u64::from(length), limit_bytes }),
    }
}

const LENGTH_BYTES: usize = 4;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(text: &[u8]) -> Vec<u8> {
        [&(text.len() as u32).to_be_bytes(), text].concat()
    }

    #[test]
    fn what_is_longer_than_allowed_is_refused_by_its_length() {
        assert!(matches!(whole(&frame(&[b' '; 10]), 10), Ok(Some(14))));
        assert!(matches!(
            whole(&11_u32.to_be_bytes(), 10),
            Err(LinkError::TooLong { bytes: 11, limit_bytes: 10 })
        ));
        // What a client of HTTP says.
        assert!(matches!(whole(b"GET / HTTP/1.1", 32 << 20), Err(LinkError::TooLong { .. })));
    }

    proptest! {
        #[test]
        fn messages_are_found_however_they_are_cut(
            texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..10),
            step in 1_usize..20,
        ) {
            let sent: Vec<u8> = texts.iter().flat_map(|text| frame(text)).collect();
            let (mut input, mut found) = (Vec::new(), Vec::new());
            for part in sent.chunks(step) {
                input.extend_from_slice(part);
                while let Some(length) = whole(&input, 50).unwrap() {
                    found.push(input[LENGTH_BYTES..length].to_vec());
                    input.drain(..length);
                }
            }
            prop_assert_eq!(found, texts);
            prop_assert!(input.is_empty());
        }

        #[test]
        fn any_bytes_are_a_message_or_an_error(input in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(Some(length)) = whole(&input, 64) {
                prop_assert!((LENGTH_BYTES..=input.len()).contains(&length));
            }
        }
    }
}
