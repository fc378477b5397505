// SPDX-License-Identifier: Apache-2.0
//! `--compressed` and `--include`: an answer decompressed, and preceded by its header fields.

use brotli_decompressor::DecompressorWriter;
use flate2::write::MultiGzDecoder;
use quiche::h3::NameValue;
use std::io::{self, Write};
use weir_core::client::{Answer, Body, Outcome};
use weir_core::text::printable_bytes;
use zstd::stream::{raw, zio};

/// Buffer of a decoder, in bytes.
const BUFFER_BYTES: usize = 16 * 1024;
/// Largest window of zstd: 8 MiB, as much as an answer may need (RFC 9659).
const ZSTD_WINDOW_LOG: u32 = 23;

/// The body behind a decoder, with the limit of decoded bytes.
struct Sink {
    body: Box<dyn Body>,
    left_bytes: u64,
    failed: Option<Outcome>,
}

impl Write for Sink {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        let taken = match self.left_bytes.checked_sub(part.len() as u64) {
            Some(left) => {
                self.left_bytes = left;
                self.body.take(part)
            }
            None => Err(Outcome::TooLarge("the decompressed answer has more bytes than --max-size".to_owned())),
        };
        match taken {
            Ok(()) => Ok(part.len()),
            Err(outcome) => {
                self.failed = Some(outcome);
                Err(io::Error::other("the answer can't be taken"))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

enum Decoder {
    Plain(Sink),
    Gzip(MultiGzDecoder<Sink>),
    Brotli(Box<DecompressorWriter<Sink>>),
    /// `zstd::stream::write::Decoder` has no `finish`, which reports an incomplete frame.
    Zstd(zio::Writer<Sink, raw::Decoder<'static>>),
}

impl Decoder {
    /// The decoder of a content coding (RFC 9110 8.4.1); `None`: not supported.
    fn new(coding: &[u8], sink: Sink) -> Option<io::Result<Decoder>> {
        Some(match coding.to_ascii_lowercase().as_slice() {
            b"" | b"identity" => Ok(Decoder::Plain(sink)),
            b"gzip" | b"x-gzip" => Ok(Decoder::Gzip(MultiGzDecoder::new(sink))),
            b"br" => Ok(Decoder::Brotli(Box::new(DecompressorWriter::new(sink, BUFFER_BYTES)))),
            b"zstd" => raw::Decoder::new().and_then(|mut decoder| {
                decoder.set_parameter(raw::DParameter::WindowLogMax(ZSTD_WINDOW_LOG))?;
                Ok(Decoder::Zstd(zio::Writer::new(sink, decoder)))
            }),
            _ => return None,
        })
    }

    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Decoder::Plain(sink) => sink,
            Decoder::Gzip(decoder) => decoder,
            Decoder::Brotli(decoder) => decoder.as_mut(),
            Decoder::Zstd(decoder) => decoder,
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        match self {
            Decoder::Plain(_) => Ok(()),
            Decoder::Gzip(decoder) => decoder.try_finish(),
            Decoder::Brotli(decoder) => decoder.close(),
            Decoder::Zstd(decoder) => decoder.finish(),
        }
    }

    fn sink(&mut self) -> &mut Sink {
        match self {
            Decoder::Plain(sink) => sink,
            Decoder::Gzip(decoder) => decoder.get_mut(),
            Decoder::Brotli(decoder) => decoder.get_mut(),
            Decoder::Zstd(decoder) => decoder.writer_mut(),
        }
    }
}

/// Decompresses an answer into another body, up to a number of bytes.
pub struct Decompressed {
    body: Option<Box<dyn Body>>,
    most_bytes: u64,
    decoder: Option<Decoder>,
    /// A part of the answer has come: an empty body is not compressed.
    has_part: bool,
}

impl Decompressed {
    /// Into `body`, `most_bytes` at most.
    pub fn new(body: Box<dyn Body>, most_bytes: Option<u64>) -> Decompressed {
        Decompressed { body: Some(body), most_bytes: most_bytes.unwrap_or(u64::MAX), decoder: None, has_part: false }
    }

    /// The outcome of a step of the decoder.
    fn checked(&mut self, step: io::Result<()>) -> Result<(), Outcome> {
        let Err(e) = step else { return Ok(()) };
        let failed = self.decoder.as_mut().and_then(|decoder| decoder.sink().failed.take());
        Err(failed.unwrap_or_else(|| Outcome::Incomplete(format!("the compressed answer is malformed: {e}"))))
    }
}

impl Body for Decompressed {
    fn head(&mut self, answer: &Answer<'_>) -> Result<(), Outcome> {
        let Some(mut body) = self.body.take() else { return Ok(()) };
        body.head(answer)?;
        let codings: Vec<_> = answer.headers.iter().filter(|h| h.name() == b"content-encoding").collect();
        let coding = codings.first().map_or(&b""[..], |h| h.value());
        let sink = Sink { body, left_bytes: self.most_bytes, failed: None };
        match Decoder::new(coding, sink).filter(|_| codings.len() < 2) {
            Some(Ok(decoder)) => self.decoder = Some(decoder),
            Some(Err(e)) => return Err(Outcome::Incomplete(format!("the decompressor: {e}"))),
            None => {
                let coding = printable_bytes(coding);
                let text = format!("content-encoding '{coding}': expected one of gzip, br, zstd (--compressed)");
                return Err(Outcome::Incomplete(text));
            }
        }
        Ok(())
    }

    fn take(&mut self, part: &[u8]) -> Result<(), Outcome> {
        self.has_part |= !part.is_empty();
        match (&mut self.decoder, &mut self.body) {
            (Some(decoder), _) => {
                let step = decoder.writer().write_all(part);
                self.checked(step)
            }
            // hq-interop has no header fields.
            (None, Some(body)) => body.take(part),
            (None, None) => Ok(()),
        }
    }

    fn restart(&mut self) -> Result<(), Outcome> {
        self.has_part = false;
        if let Some(decoder) = &mut self.decoder {
            let nowhere: Box<dyn Body> = Box::new(weir_core::client::Nowhere);
            let mut body = std::mem::replace(&mut decoder.sink().body, nowhere);
            // Bytes that the decoder still holds go nowhere.
            self.decoder = None;
            body.restart()?;
            self.body = Some(body);
            return Ok(());
        }
        self.body.as_mut().map_or(Ok(()), |body| body.restart())
    }

    fn finish(&mut self) -> Result<(), Outcome> {
        match (&mut self.decoder, &mut self.body) {
            (Some(decoder), _) => {
                let step = if self.has_part { decoder.finish() } else { Ok(()) };
                self.checked(step)?;
                self.decoder.as_mut().map_or(Ok(()), |decoder| decoder.sink().body.finish())
            }
            (None, Some(body)) => body.finish(),
            (None, None) => Ok(()),
        }
    }
}

/// Writes the status and the header fields before a body.
pub struct Included(pub Box<dyn Body>);

impl Body for Included {
    fn head(&mut self, answer: &Answer<'_>) -> Result<(), Outcome> {
        self.0.head(answer)?;
        let mut text = format!("HTTP/3 {}\r\n", answer.status).into_bytes();
        for header in answer.headers.iter().filter(|h| !h.name().starts_with(b":")) {
            text.extend([header.name(), b": ", header.value(), b"\r\n"].concat());
        }
        text.extend(b"\r\n");
        self.0.take(&text)
    }

    fn take(&mut self, part: &[u8]) -> Result<(), Outcome> {
        self.0.take(part)
    }

    fn restart(&mut self) -> Result<(), Outcome> {
        self.0.restart()
    }

    fn finish(&mut self) -> Result<(), Outcome> {
        self.0.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiche::h3::Header;
    use std::cell::RefCell;
    use std::rc::Rc;

    #[derive(Default, Clone)]
    struct Kept(Rc<RefCell<Vec<u8>>>);

    impl Body for Kept {
        fn take(&mut self, part: &[u8]) -> Result<(), Outcome> {
            self.0.borrow_mut().extend(part);
            Ok(())
        }

        fn restart(&mut self) -> Result<(), Outcome> {
            self.0.borrow_mut().clear();
            Ok(())
        }

        fn finish(&mut self) -> Result<(), Outcome> {
            Ok(())
        }
    }

    /// The decoded bytes of an answer that arrives in parts of 7 bytes, or the outcome.
    fn decoded(coding: &str, bytes: &[u8], most: Option<u64>) -> Result<Vec<u8>, Outcome> {
        let kept = Kept::default();
        let mut body = Decompressed::new(Box::new(kept.clone()), most);
        let headers = [Header::new(b"content-encoding", coding.as_bytes())];
        let run = |body: &mut Decompressed| {
            body.head(&Answer { status: 200, headers: &headers, content_length: None })?;
            bytes.chunks(7).try_for_each(|part| body.take(part))?;
            body.finish()
        };
        run(&mut body)?;
        body.restart()?;
        run(&mut body)?;
        drop(body);
        Ok(kept.0.take())
    }

    fn gzip(plain: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    /// "some text, " a thousand times, compressed by brotli.
    const BROTLI: [u8; 30] = [
        27, 247, 42, 248, 141, 211, 101, 246, 211, 9, 109, 13, 210, 54, 135, 167, 89, 202, 222, 232, 196, 129, 17, 64,
        167, 34, 0, 165, 236, 3,
    ];

    #[test]
    fn codings() {
        let plain: Vec<u8> = (0..10_000u32).flat_map(|n| (n % 300).to_be_bytes()).collect();
        assert_eq!(decoded("gzip", &gzip(&plain), None).unwrap(), plain);
        assert_eq!(decoded("zstd", &zstd::encode_all(&plain[..], 3).unwrap(), None).unwrap(), plain);
        let twice = [zstd::encode_all(&plain[..100], 3).unwrap(), zstd::encode_all(&plain[100..], 3).unwrap()].concat();
        assert_eq!(decoded("zstd", &twice, None).unwrap(), plain);
        assert_eq!(decoded("br", &BROTLI, None).unwrap(), b"some text, ".repeat(1000));
        assert_eq!(decoded("identity", &plain, None).unwrap(), plain);
        assert!(matches!(decoded("deflate", &plain, None), Err(Outcome::Incomplete(_))));
    }

    #[test]
    fn bombs_and_damage_end() {
        let bomb = gzip(&vec![0; 10_000_000]);
        assert!(bomb.len() < 20_000);
        assert!(matches!(decoded("gzip", &bomb, Some(1_000_000)), Err(Outcome::TooLarge(_))));
        for coding in ["gzip", "br", "zstd"] {
            assert!(matches!(decoded(coding, b"not compressed at all", None), Err(Outcome::Incomplete(_))), "{coding}");
        }
        let (gzip, zstd) = (gzip(b"some text"), zstd::encode_all(&b"some text"[..], 3).unwrap());
        for (coding, whole, missing) in [("gzip", &gzip[..], 9), ("br", &BROTLI, 1), ("zstd", &zstd, 1)] {
            for left in 1..=whole.len() - missing {
                assert!(
                    matches!(decoded(coding, &whole[..left], None), Err(Outcome::Incomplete(_))),
                    "{coding} {left}"
                );
            }
            assert_eq!(decoded(coding, b"", None).unwrap(), b"", "{coding}");
        }
    }
}
