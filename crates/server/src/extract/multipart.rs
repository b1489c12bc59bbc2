//! Forms with files, part by part.

use std::ops::Deref;

use anywire_http::accept::MediaType;
use anywire_http::multipart::{Decoder, Error, Event, Limits, PartHead};
use anywire_http::{Body, BodyError};
use bytes::{Bytes, BytesMut};

use super::{FromRequest, OptionalFromRequest, Rejection, media};
use crate::request::Request;

/// A form with files, `multipart/form-data` (RFC 7578), whose parts come one after the other. It takes the body, so it is the last
/// argument.
///
/// Nothing is read before the handler asks for it, and no part is held: a slow handler holds back its peer. A request gets 415 unless its
/// content type is `multipart/form-data`, or if its body is coded. What is wrong later is the error of the method that reads: by `?` it
/// is a 400, or a 413 beyond [`Limits`](anywire_http::multipart::Limits), whose defaults are 1,000 parts of 64 MiB, 256 MiB in all.
///
/// ```
/// use anywire_server::{Error, Multipart, Router};
///
/// async fn upload(mut form: Multipart) -> Result<String, Error> {
///     let (mut title, mut bytes) = (String::new(), 0);
///     while let Some(mut part) = form.next_part().await? {
///         match part.file_name() {
///             None if part.name() == "title" => title = part.text(1000).await?,
///             None => {} // What is not read is skipped.
///             Some(_) => while let Some(piece) = part.chunk().await? {
///                 bytes += piece.len();
///             },
///         }
///     }
///     Ok(format!("{title}: {bytes}"))
/// }
///
/// let router = Router::new().post("/photos", upload);
/// # anywire_loops::block_on(async {
/// let request = anywire_http::Request::post("/photos").header("content-type", "multipart/form-data; boundary=x");
/// let form = "--x\r\ncontent-disposition: form-data; name=\"title\"\r\n\r\nTea\r\n\
///             --x\r\ncontent-disposition: form-data; name=\"photo\"; filename=\"tea.png\"\r\n\r\n1234\r\n--x--\r\n";
/// let mut response = router.call(request.body(form)).await;
/// assert_eq!(response.body.text(100).await?, "Tea: 4");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Multipart {
    body: Body,
    decoder: Decoder,
}

/// A part of a [`Multipart`]. Its head says which field it is.
#[derive(Debug)]
pub struct Part<'f> {
    form: &'f mut Multipart,
    head: PartHead,
    has_ended: bool,
}

impl Multipart {
    /// The same form with other limits, before its first part.
    ///
    /// ```
    /// use anywire_http::multipart::Limits;
    /// use anywire_server::{Error, Multipart};
    ///
    /// async fn films(form: Multipart) -> Result<(), Error> {
    ///     let mut form = form.limits(Limits { part_bytes: 4 << 30, total_bytes: 8 << 30, ..Limits::default() });
    ///     while form.next_part().await?.is_some() {}
    ///     Ok(())
    /// }
    /// ```
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { decoder: self.decoder.with_limits(limits), ..self }
    }

    /// The next part, or `None` at the end of the form. What was not read of the part before is skipped as it comes.
    ///
    /// # Errors
    /// [`Rejection::Multipart`] and [`Rejection::Body`]. There is no further part then.
    pub async fn next_part(&mut self) -> Result<Option<Part<'_>>, Rejection> {
        loop {
            match self.event().await? {
                Some(Event::Part(head)) => return Ok(Some(Part { form: self, head, has_ended: false })),
                Some(Event::Data(_) | Event::PartEnd) => {}
                Some(Event::End) | None => return Ok(None),
            }
        }
    }

    async fn event(&mut self) -> Result<Option<Event>, Rejection> {
        loop {
            if let Some(event) = self.decoder.decode().map_err(Rejection::Multipart)? {
                return Ok(Some(event));
            }
            let Some(piece) = self.body.chunk().await.map_err(Rejection::Body)? else {
                return self.decoder.end().map(|()| None).map_err(Rejection::Multipart);
            };
            self.decoder.push(piece).map_err(Rejection::Multipart)?;
        }
    }
}

impl Part<'_> {
    /// The next bytes of its content, never empty; `None` at its end.
    ///
    /// # Errors
    /// As [`Multipart::next_part`].
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Rejection> {
        if self.has_ended {
            return Ok(None);
        }
        if let Some(Event::Data(bytes)) = self.form.event().await? {
            return Ok(Some(bytes));
        }
        self.has_ended = true;
        Ok(None)
    }

    /// All bytes of its content that have not been read.
    ///
    /// # Errors
    /// [`Rejection::Multipart`] if there are more than `limit_bytes`, and those of [`chunk`](Self::chunk).
    pub async fn bytes(&mut self, limit_bytes: usize) -> Result<Bytes, Rejection> {
        let mut bytes = BytesMut::new();
        while let Some(piece) = self.chunk().await? {
            if piece.len() > limit_bytes - bytes.len() {
                return Err(Rejection::Multipart(Error::PartTooLarge { limit_bytes: limit_bytes as u64 }));
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes.freeze())
    }

    /// The same as UTF-8, whatever its content type says: forms are sent so (RFC 7578 section 5.1).
    ///
    /// # Errors
    /// [`Rejection::Body`] if it is not UTF-8, and those of [`bytes`](Self::bytes).
    pub async fn text(&mut self, limit_bytes: usize) -> Result<String, Rejection> {
        let bytes = self.bytes(limit_bytes).await?;
        String::from_utf8(bytes.into())
            .map_err(|invalid| Rejection::Body(BodyError::Text(invalid.utf8_error())))
    }
}

impl Deref for Part<'_> {
    type Target = PartHead;

    fn deref(&self) -> &PartHead {
        &self.head
    }
}

impl FromRequest for Multipart {
    type Rejection = Rejection;

    async fn from_request(request: Request) -> Result<Self, Rejection> {
        media::expect(&request, "multipart/form-data", |essence| {
            essence.eq_ignore_ascii_case("multipart/form-data")
        })?;
        if let Some(coding) = request.headers().content_coding() {
            return Err(Rejection::Coded { coding });
        }
        let content_type = media::content_type(request.headers()).unwrap_or_default();
        let boundary = MediaType::parse(content_type).ok().and_then(|kind| kind.param("boundary"));
        let decoder = Decoder::new(&boundary.unwrap_or_default(), Limits::default());
        Ok(Self { decoder: decoder.map_err(Rejection::Multipart)?, body: request.into_body() })
    }
}

impl OptionalFromRequest for Multipart {
    fn is_absent(request: &Request) -> bool {
        !request.has_body()
    }
}
