//! The base64 of audio. Knows no event.

use base64_simd::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// The audio is no base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotBase64;

/// Replaces `pcm` by the bytes of the text. Either alphabet is read, padded or not, as protobuf JSON allows.
pub(crate) fn decode_base64(text: &[u8], pcm: &mut Vec<u8>) -> Result<(), NotBase64> {
    pcm.clear();
    let padding = text
        .iter()
        .rev()
        .take(2)
        .take_while(|byte| **byte == b'=')
        .count();
    let text = &text[..text.len() - padding];
    if STANDARD_NO_PAD.decode_append(text, pcm).is_ok() {
        return Ok(());
    }
    pcm.clear();
    URL_SAFE_NO_PAD
        .decode_append(text, pcm)
        .map_err(|_| NotBase64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_alphabets_are_read_with_and_without_padding() {
        for (text, bytes) in [
            ("+/8=", Some(&[0xfb, 0xff][..])),
            ("-_8=", Some(&[0xfb, 0xff][..])),
            ("+/8", Some(&[0xfb, 0xff][..])),
            ("-_8", Some(&[0xfb, 0xff][..])),
            ("AA==", Some(&[0][..])),
            ("AAAA", Some(&[0, 0, 0][..])),
            ("", Some(&[][..])),
            ("+_8=", None),
            ("A", None),
            ("AAAA===", None),
            ("AA AA", None),
            ("AA=A", None),
            ("é", None),
        ] {
            let mut pcm = vec![9];
            let outcome = decode_base64(text.as_bytes(), &mut pcm);
            assert_eq!(
                outcome.is_ok().then_some(&pcm[..]),
                bytes,
                "decoding {text:?}"
            );
        }
    }
}
