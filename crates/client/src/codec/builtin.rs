//! The codecs that come with the client.

use anywire_http::Bytes;
use serde::de::DeserializeSeed;

use super::{Codec, CodecError, Source, Target};

/// JSON: `application/json`, read as `application/*+json` as well. For all types of serde.
#[derive(Debug, Clone, Copy, Default)]
pub struct JsonCodec;

impl Codec for JsonCodec {
    fn media_types(&self) -> &[&str] {
        &["application/json", "application/*+json"]
    }

    fn decode(&self, body: &Bytes, target: Target<'_>) -> Result<(), CodecError> {
        let mut json = serde_json::Deserializer::from_slice(body);
        target.deserialize(&mut json)?;
        Ok(json.end()?)
    }

    fn encode(&self, value: Source<'_>) -> Result<Bytes, CodecError> {
        Ok(serde_json::to_vec(&value)?.into())
    }
}

/// Text: `text/plain` in UTF-8, and all types of `text/` are read. For `String`, and `&'static str` to be written.
#[derive(Debug, Clone, Copy, Default)]
pub struct TextCodec;

impl Codec for TextCodec {
    fn media_types(&self) -> &[&str] {
        &["text/plain; charset=utf-8", "text/*"]
    }

    fn decode(&self, body: &Bytes, target: Target<'_>) -> Result<(), CodecError> {
        target.put(str::from_utf8(body)?.to_owned())
    }

    fn encode(&self, value: Source<'_>) -> Result<Bytes, CodecError> {
        match value.value::<&'static str>() {
            Ok(text) => Ok(Bytes::from_static(text.as_bytes())),
            Err(_) => Ok(value.value::<String>()?.clone().into()),
        }
    }
}

/// A form, `application/x-www-form-urlencoded`: for structs, maps and lists of pairs.
#[derive(Debug, Clone, Copy, Default)]
pub struct FormCodec;

impl Codec for FormCodec {
    fn media_types(&self) -> &[&str] {
        &["application/x-www-form-urlencoded"]
    }

    fn decode(&self, body: &Bytes, target: Target<'_>) -> Result<(), CodecError> {
        Ok(target.deserialize(serde_urlencoded::Deserializer::new(url::form_urlencoded::parse(body)))?)
    }

    fn encode(&self, value: Source<'_>) -> Result<Bytes, CodecError> {
        Ok(serde_urlencoded::to_string(value)?.into())
    }
}

/// Bytes: `application/octet-stream`, and all types are read. For `Vec<u8>`.
#[derive(Debug, Clone, Copy, Default)]
pub struct BytesCodec;

impl Codec for BytesCodec {
    fn media_types(&self) -> &[&str] {
        &["application/octet-stream", "*/*"]
    }

    fn decode(&self, body: &Bytes, target: Target<'_>) -> Result<(), CodecError> {
        target.put(body.to_vec())
    }

    fn encode(&self, value: Source<'_>) -> Result<Bytes, CodecError> {
        Ok(value.value::<Vec<u8>>()?.clone().into())
    }
}
