//! The codecs of a route, and which of them fits a request.

use std::sync::{Arc, LazyLock};

use anywire_http::Bytes;
use anywire_http::accept::{Accept, InvalidMediaType, MediaType};
use serde::Serialize;

use super::{Codec, CodecAdvice, CodecError, Source};
use crate::request::Parts;

/// What a layer says about codecs.
#[derive(Clone, Default)]
pub(crate) struct CodecSettings {
    codecs: Vec<AnyCodec>,
    advice: Vec<Arc<dyn CodecAdvice>>,
}

/// A codec, of which JSON is known.
#[derive(Clone)]
pub(super) enum AnyCodec {
    Json,
    Of(Arc<dyn Codec>),
}

impl CodecSettings {
    pub(crate) fn json(&mut self) {
        self.codecs.push(AnyCodec::Json);
    }

    pub(crate) fn codec(&mut self, codec: impl Codec) {
        self.codecs.push(AnyCodec::Of(Arc::new(codec)));
    }

    pub(crate) fn advice(&mut self, advice: impl CodecAdvice) {
        self.advice.push(Arc::new(advice));
    }

    pub(crate) fn has_codecs(&self) -> bool {
        !self.codecs.is_empty()
    }

    /// The set of these, within that of a layer around this one.
    pub(crate) fn within(&self, outer: &CodecSet) -> Result<CodecSet, InvalidMediaType> {
        let mut set = match self.has_codecs() {
            true => CodecSet::of(&self.codecs)?,
            false => CodecSet { advice: Vec::new(), ..outer.clone() },
        };
        set.advice = outer.advice.iter().chain(&self.advice).cloned().collect();
        Ok(set)
    }
}

/// The codecs of a route, the best one first, and the advice around them, the outermost first.
#[derive(Clone)]
pub(crate) struct CodecSet {
    codecs: Vec<AnyCodec>,
    /// What they read, each with the place of its codec.
    read: Vec<(MediaType, usize)>,
    /// What they write.
    written: Vec<MediaType>,
    /// The places of the codecs of these.
    writers: Vec<usize>,
    pub(super) advice: Vec<Arc<dyn CodecAdvice>>,
}

impl CodecSet {
    fn of(codecs: &[AnyCodec]) -> Result<Self, InvalidMediaType> {
        let mut set = Self {
            codecs: codecs.to_vec(),
            read: Vec::new(),
            written: Vec::new(),
            writers: Vec::new(),
            advice: Vec::new(),
        };
        for (place, codec) in codecs.iter().enumerate() {
            for text in codec.media_types() {
                let media_type = MediaType::parse(text)?;
                if !media_type.is_range() {
                    set.written.push(media_type.clone());
                    set.writers.push(place);
                }
                set.read.push((media_type, place));
            }
        }
        Ok(set)
    }

    /// That of a route without a layer: JSON.
    pub(crate) fn of_json() -> &'static Arc<Self> {
        static JSON: LazyLock<Arc<CodecSet>> =
            LazyLock::new(|| Arc::new(CodecSet::of(&[AnyCodec::Json]).expect("its types are well-formed")));
        &JSON
    }

    /// That of the route of this request.
    pub(super) fn of_request(parts: &Parts) -> Arc<Self> {
        Arc::clone(parts.extensions().get().unwrap_or_else(|| Self::of_json()))
    }

    /// What reads a body of this type.
    pub(super) fn reader(&self, content_type: &str) -> Option<&AnyCodec> {
        let (_, place) = self.read.iter().find(|(read, _)| read.includes_text(content_type))?;
        self.codecs.get(*place)
    }

    /// What a peer gets that accepts this: the codec, and the media type.
    pub(super) fn best(&self, accept: &Accept<'_>) -> Option<(&AnyCodec, &MediaType)> {
        let best = accept.best(&self.written)?;
        let at = self.written.iter().position(|written| std::ptr::eq(written, best))?;
        Some((self.codecs.get(*self.writers.get(at)?)?, best))
    }

    /// What writes this type.
    pub(super) fn writer(&self, chosen: &MediaType) -> Option<(&AnyCodec, &MediaType)> {
        let at = self.written.iter().position(|written| written == chosen)?;
        Some((self.codecs.get(*self.writers.get(at)?)?, self.written.get(at)?))
    }

    /// All types that are read.
    pub(crate) fn reads(&self) -> Vec<String> {
        self.read.iter().map(|(read, _)| read.as_str().to_owned()).collect()
    }

    /// All types that are written.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.written.iter().map(|written| written.as_str().to_owned()).collect()
    }
}

impl AnyCodec {
    fn media_types(&self) -> &[&str] {
        match self {
            Self::Json => &["application/json", "application/*+json"],
            Self::Of(codec) => codec.media_types(),
        }
    }

    pub(super) fn encode<T: Serialize + 'static>(&self, value: &T) -> Result<Bytes, CodecError> {
        match self {
            Self::Json => Ok(serde_json::to_vec(value)?.into()),
            Self::Of(codec) => codec.encode(Source::new(value)),
        }
    }
}
