//! Forms with files, `multipart/form-data` (RFC 7578): the parts of a body as its bytes come, without holding one.
//!
//! [`Decoder`] takes the pieces of a body in any cut and gives [`Event`]s. It holds one piece, and the head of a part. The drain rule: after
//! each [`push`](Decoder::push), call [`decode`](Decoder::decode) until it returns `None`.
//!
//! ```
//! use anywire_http::multipart::{Decoder, Event, Limits};
//!
//! let mut decoder = Decoder::new("x", Limits::default())?;
//! decoder.push("--x\r\ncontent-disposition: form-data; name=\"item\"\r\n\r\ntea\r\n--x--\r\n".into())?;
//! let Some(Event::Part(head)) = decoder.decode()? else { panic!("a part begins") };
//! assert_eq!(head.name(), "item");
//! assert_eq!(decoder.decode()?, Some(Event::Data("tea".into())));
//! assert_eq!(decoder.decode()?, Some(Event::PartEnd));
//! assert_eq!(decoder.decode()?, Some(Event::End));
//! # Ok::<(), anywire_http::multipart::Error>(())
//! ```

mod decoder;
mod disposition;
mod error;
mod head;
mod limits;

pub use self::decoder::{Decoder, Event};
pub use self::error::Error;
pub use self::head::PartHead;
pub use self::limits::Limits;
