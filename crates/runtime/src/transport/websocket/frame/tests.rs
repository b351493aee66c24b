//! Framing, both ways, against frames written by hand after RFC 6455.

use super::*;

const LIMITS: MessageLimits = MessageLimits {
    text_bytes_max: 70_000,
    binary_bytes_max: 10,
};

/// One decoder's messages for bytes that arrive in chunks of `chunk` bytes.
fn decode(role: Role, bytes: &[u8], chunk: usize) -> Result<Vec<String>, FrameError> {
    let mut decoder = Decoder::new(role, LIMITS);
    let (mut said, mut buffer) = (Vec::new(), Vec::new());
    for part in bytes.chunks(chunk) {
        buffer.extend_from_slice(part);
        let mut position = 0;
        while let Some(message) = decoder.next(&mut buffer, &mut position)? {
            said.push(match message {
                Message::Text(text) => format!("text {}", String::from_utf8_lossy(&text)),
                Message::Binary(bytes) => format!("binary {bytes:?}"),
                Message::Ping(bytes) => format!("ping {bytes:?}"),
                Message::Pong => "pong".into(),
                Message::Close(frame) => format!("close {} {:?}", frame.code, frame.reason),
                Message::TooLarge { is_binary } => format!("too large {is_binary}"),
            });
        }
        buffer.drain(..position);
    }
    Ok(said)
}

#[track_caller]
fn check(bytes: &[u8], expected: &[&str]) {
    for chunk in [1, 2, 3, 7, bytes.len().max(1)] {
        let said = decode(Role::Client, bytes, chunk).unwrap();
        assert_eq!(said, expected, "in chunks of {chunk}");
    }
}

#[test]
fn messages_are_read_however_they_are_cut() {
    check(b"\x81\x02hi\x82\x01\x07", &["text hi", "binary [7]"]);
    check(b"\x81\x00", &["text "]);
    check(b"\x89\x01!\x8a\x00", &["ping [33]", "pong"]);
    check(b"\x88\x00", &["close 1005 \"\""]);
    check(b"\x88\x05\x03\xf0bye", &["close 1008 \"bye\""]);
    check(b"\x81\x7e\x00\x03abc", &["text abc"]);
    check(
        b"\x81\x7f\x00\x00\x00\x00\x00\x00\x00\x03abc",
        &["text abc"],
    );
}

#[test]
fn fragments_are_joined_and_control_frames_pass_between_them() {
    check(
        b"\x01\x02he\x89\x00\x00\x01l\x80\x02lo\x81\x01!",
        &["ping []", "text hello", "text !"],
    );
    check(b"\x02\x00\x80\x00", &["binary []"]);
}

#[test]
fn a_message_over_its_limit_is_skipped_and_the_next_one_is_read() {
    check(
        b"\x82\x0b12345678901\x82\x01\x05",
        &["too large true", "binary [5]"],
    );
    // Fragments: the first two fit, the third does not, the fourth belongs to the refused message.
    check(
        b"\x02\x041234\x00\x045678\x00\x04abcd\x80\x04efgh\x81\x02ok",
        &["too large true", "text ok"],
    );
    let mut long = vec![0x81, 0x7f];
    long.extend_from_slice(&70_001_u64.to_be_bytes());
    long.resize(long.len() + 70_001, b'x');
    long.extend_from_slice(b"\x81\x02ok");
    let said = decode(Role::Client, &long, 1_000).unwrap();
    assert_eq!(said, ["too large false", "text ok"]);
}

#[test]
fn what_breaks_the_protocol_is_named() {
    for (role, bytes, error) in [
        (Role::Client, &b"\xc1\x00"[..], FrameError::Reserved),
        (Role::Client, b"\x83\x00", FrameError::Reserved),
        (Role::Client, b"\x81\x80\0\0\0\0", FrameError::Mask),
        (Role::Server, b"\x81\x00", FrameError::Mask),
        (Role::Client, b"\x09\x00", FrameError::Control),
        (Role::Client, b"\x89\x7e\x00\x7e", FrameError::Control),
        (Role::Client, b"\x80\x00", FrameError::Fragmentation),
        (Role::Client, b"\x01\x00\x01\x00", FrameError::Fragmentation),
        (Role::Client, b"\x88\x01x", FrameError::Close),
        (
            Role::Client,
            b"\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff",
            FrameError::TooLong,
        ),
    ] {
        assert_eq!(decode(role, bytes, 64), Err(error), "{bytes:?}");
    }
}

#[test]
fn what_is_appended_reads_back_at_every_size_and_masked_as_well() {
    for size in [
        0, 1, 7, 8, 9, 125, 126, 127, 1_000, 0xffff, 0x1_0000, 69_999,
    ] {
        let text: String = ('a'..='z').cycle().take(size).collect();
        for (mask, reader) in [(None, Role::Client), (Some([1, 2, 3, 254]), Role::Server)] {
            let mut bytes = b"earlier".to_vec();
            append(&mut bytes, Opcode::Text, mask, |payload| {
                payload.extend_from_slice(text.as_bytes());
            });
            assert_eq!(&bytes[..7], b"earlier");
            let said = decode(reader, &bytes[7..], bytes.len()).unwrap();
            assert_eq!(said, [format!("text {text}")], "{size} {mask:?}");
            let header = if size < 126 {
                2
            } else if size < 0x1_0000 {
                4
            } else {
                10
            };
            let mask_bytes = if mask.is_some() { 4 } else { 0 };
            assert_eq!(bytes.len(), 7 + header + mask_bytes + size);
        }
    }
}

#[test]
fn arbitrary_bytes_never_panic() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..2_000 {
        let bytes: Vec<u8> = (0..64)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        for role in [Role::Client, Role::Server] {
            let _ = decode(role, &bytes, 5);
        }
    }
}
