//! WebSocket framing as pure functions over bytes (RFC 6455, section 5). Owns headers, masks, fragments and size limits;
//! knows no socket, and never copies or allocates for a message that arrives in one frame.

use std::borrow::Cow;
use std::ops::Range;

/// Our end of the connection. Clients mask their frames, servers never do (section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Server,
    Client,
}

/// Largest payloads that are taken; a larger one is skipped and reported, as long as it is below the hard limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageLimits {
    pub text_bytes_max: usize,
    pub binary_bytes_max: usize,
}

/// A frame that claims more than this ends the connection: skipping it would take for ever.
pub(crate) const SKIPPED_BYTES_MAX: u64 = 64 << 20;
/// Control frames carry at most this much (section 5.5).
const CONTROL_BYTES_MAX: u64 = 125;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opcode {
    Continuation = 0,
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

impl Opcode {
    fn of(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// One message of the peer. Payloads borrow the read buffer unless the message came in pieces.
#[derive(Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Text that is not checked for UTF-8: its parser does that anyway.
    Text(Cow<'a, [u8]>),
    Binary(Cow<'a, [u8]>),
    Ping(&'a [u8]),
    Pong,
    Close(CloseFrame),
    /// A message over its limit; its bytes are skipped.
    TooLarge {
        is_binary: bool,
    },
}

/// The reason why the peer closes. The code is 1005 for a close without one, as section 7.1.5 says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseFrame {
    pub code: u16,
    pub reason: String,
}

/// A breach of the protocol, which ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("the peer set reserved bits or sent an unknown opcode")]
    Reserved,
    #[error("the peer's frames are masked the wrong way for its role")]
    Mask,
    #[error("a control frame is fragmented or longer than 125 bytes")]
    Control,
    #[error("a continuation without a beginning, or a new message inside an unfinished one")]
    Fragmentation,
    #[error("a frame claims more than {} bytes", SKIPPED_BYTES_MAX)]
    TooLong,
    #[error("a close frame has a payload of one byte")]
    Close,
}

impl FrameError {
    /// The code of our own close frame (section 7.4.1).
    pub fn close_code(self) -> u16 {
        match self {
            Self::TooLong => 1009,
            Self::Reserved | Self::Mask | Self::Control | Self::Fragmentation | Self::Close => 1002,
        }
    }
}

/// The state between two reads.
#[derive(Debug)]
pub(crate) struct Decoder {
    role: Role,
    limits: MessageLimits,
    unfinished: Option<Unfinished>,
    /// Payload bytes that are still to be skipped.
    skipped_bytes_left: u64,
}

/// A message whose last fragment has not come yet.
#[derive(Debug)]
struct Unfinished {
    is_binary: bool,
    is_too_large: bool,
    pieces: Vec<u8>,
}

struct Header {
    is_final: bool,
    opcode: Opcode,
    mask: Option<[u8; 4]>,
    header_bytes: usize,
    payload_bytes: u64,
}

/// The place of a message, before it is lent out.
enum Found {
    Frame {
        opcode: Opcode,
        payload: Range<usize>,
    },
    Pieces {
        is_binary: bool,
        whole: Vec<u8>,
    },
    TooLarge {
        is_binary: bool,
    },
}

impl Decoder {
    pub(crate) fn new(role: Role, limits: MessageLimits) -> Self {
        Self {
            role,
            limits,
            unfinished: None,
            skipped_bytes_left: 0,
        }
    }

    /// The next message in `bytes` from `position` on, or `None` if more bytes must be read first. Moves `position` past the used
    /// bytes; masked payloads are unmasked in place.
    pub(crate) fn next<'a>(
        &mut self,
        bytes: &'a mut [u8],
        position: &mut usize,
    ) -> Result<Option<Message<'a>>, FrameError> {
        Ok(match self.find(bytes, position)? {
            None => None,
            Some(Found::Frame { opcode, payload }) => Some(whole(opcode, &bytes[payload])?),
            Some(Found::Pieces { is_binary, whole }) => Some(if is_binary {
                Message::Binary(Cow::Owned(whole))
            } else {
                Message::Text(Cow::Owned(whole))
            }),
            Some(Found::TooLarge { is_binary }) => Some(Message::TooLarge { is_binary }),
        })
    }

    fn find(
        &mut self,
        bytes: &mut [u8],
        position: &mut usize,
    ) -> Result<Option<Found>, FrameError> {
        loop {
            self.skip(bytes.len(), position);
            let Some(header) = self.header(&bytes[*position..])? else {
                return Ok(None);
            };
            if let Some(refused) = self.refuse_large(&header)? {
                *position += header.header_bytes;
                self.skipped_bytes_left = header.payload_bytes;
                match refused {
                    Refused::News(found) => return Ok(Some(found)),
                    Refused::Known => continue,
                }
            }
            let start = *position + header.header_bytes;
            let payload_bytes = usize::try_from(header.payload_bytes)
                .expect("a payload within its limit fits the address space");
            if payload_bytes > bytes.len().saturating_sub(start) {
                return Ok(None);
            }
            let payload = start..start + payload_bytes;
            *position = payload.end;
            if let Some(mask) = header.mask {
                apply_mask(&mut bytes[payload.clone()], mask);
            }
            let is_fragment = !header.is_final || header.opcode == Opcode::Continuation;
            if !is_fragment {
                let opcode = header.opcode;
                return Ok(Some(Found::Frame { opcode, payload }));
            }
            if let Some(found) = self.take_piece(&header, &bytes[payload]) {
                return Ok(Some(found));
            }
        }
    }

    fn skip(&mut self, length: usize, position: &mut usize) {
        let at_hand = (length - *position) as u64;
        let skipped = self.skipped_bytes_left.min(at_hand);
        self.skipped_bytes_left -= skipped;
        *position += usize::try_from(skipped).expect("skipped bytes lie in the buffer");
    }

    fn header(&self, bytes: &[u8]) -> Result<Option<Header>, FrameError> {
        let [first, second, rest @ ..] = bytes else {
            return Ok(None);
        };
        if first & 0x70 != 0 {
            return Err(FrameError::Reserved);
        }
        let opcode = Opcode::of(first & 0x0f).ok_or(FrameError::Reserved)?;
        let is_masked = second & 0x80 != 0;
        if is_masked != (self.role == Role::Server) {
            return Err(FrameError::Mask);
        }
        let Some((payload_bytes, length_bytes)) = payload_length(second & 0x7f, rest) else {
            return Ok(None);
        };
        let is_final = first & 0x80 != 0;
        if opcode.is_control() && (!is_final || payload_bytes > CONTROL_BYTES_MAX) {
            return Err(FrameError::Control);
        }
        let fits_sequence = match opcode {
            Opcode::Continuation => self.unfinished.is_some(),
            Opcode::Text | Opcode::Binary => self.unfinished.is_none(),
            Opcode::Close | Opcode::Ping | Opcode::Pong => true,
        };
        if !fits_sequence {
            return Err(FrameError::Fragmentation);
        }
        let mask = match (is_masked, rest[length_bytes..].first_chunk::<4>()) {
            (false, _) => None,
            (true, Some(mask)) => Some(*mask),
            (true, None) => return Ok(None),
        };
        Ok(Some(Header {
            is_final,
            opcode,
            mask,
            header_bytes: 2 + length_bytes + if is_masked { 4 } else { 0 },
            payload_bytes,
        }))
    }

    /// `Some` if the frame's payload is to be skipped, because its message is over its limit.
    fn refuse_large(&mut self, header: &Header) -> Result<Option<Refused>, FrameError> {
        if header.opcode.is_control() {
            return Ok(None);
        }
        if header.payload_bytes > SKIPPED_BYTES_MAX {
            return Err(FrameError::TooLong);
        }
        let (is_binary, is_known, earlier_bytes) = match &self.unfinished {
            Some(message) => (
                message.is_binary,
                message.is_too_large,
                message.pieces.len() as u64,
            ),
            None => (header.opcode == Opcode::Binary, false, 0),
        };
        let limit = if is_binary {
            self.limits.binary_bytes_max
        } else {
            self.limits.text_bytes_max
        };
        if !is_known && earlier_bytes + header.payload_bytes <= limit as u64 {
            return Ok(None);
        }
        self.unfinished = (!header.is_final).then(|| Unfinished {
            is_binary,
            is_too_large: true,
            pieces: Vec::new(),
        });
        Ok(Some(if is_known {
            Refused::Known
        } else {
            Refused::News(Found::TooLarge { is_binary })
        }))
    }

    /// Takes one fragment. Returns the whole message after the last one.
    fn take_piece(&mut self, header: &Header, payload: &[u8]) -> Option<Found> {
        let message = self.unfinished.get_or_insert_with(|| Unfinished {
            is_binary: header.opcode == Opcode::Binary,
            is_too_large: false,
            pieces: Vec::new(),
        });
        message.pieces.extend_from_slice(payload);
        if !header.is_final {
            return None;
        }
        self.unfinished.take().map(|message| Found::Pieces {
            is_binary: message.is_binary,
            whole: message.pieces,
        })
    }
}

enum Refused {
    News(Found),
    Known,
}

fn payload_length(seven_bits: u8, rest: &[u8]) -> Option<(u64, usize)> {
    match seven_bits {
        126 => Some((u64::from(u16::from_be_bytes(*rest.first_chunk()?)), 2)),
        127 => Some((u64::from_be_bytes(*rest.first_chunk()?), 8)),
        short => Some((u64::from(short), 0)),
    }
}

fn whole(opcode: Opcode, payload: &[u8]) -> Result<Message<'_>, FrameError> {
    Ok(match opcode {
        Opcode::Text | Opcode::Continuation => Message::Text(Cow::Borrowed(payload)),
        Opcode::Binary => Message::Binary(Cow::Borrowed(payload)),
        Opcode::Ping => Message::Ping(payload),
        Opcode::Pong => Message::Pong,
        Opcode::Close => Message::Close(match payload {
            [] => CloseFrame {
                code: 1005,
                reason: String::new(),
            },
            [_] => return Err(FrameError::Close),
            [high, low, reason @ ..] => CloseFrame {
                code: u16::from_be_bytes([*high, *low]),
                reason: String::from_utf8_lossy(reason).into_owned(),
            },
        }),
    })
}

/// Applies a masking key. Applying it again removes it (section 5.3).
fn apply_mask(payload: &mut [u8], mask: [u8; 4]) {
    let [a, b, c, d] = mask;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let mut chunks = payload.chunks_exact_mut(8);
    for chunk in &mut chunks {
        let bytes = *chunk
            .first_chunk::<8>()
            .expect("an exact chunk has eight bytes");
        chunk.copy_from_slice(&(u64::from_ne_bytes(bytes) ^ wide).to_ne_bytes());
    }
    for (byte, key) in chunks.into_remainder().iter_mut().zip(mask.iter().cycle()) {
        *byte ^= key;
    }
}

/// Appends one final frame to `bytes`. `write` appends the payload, so that it is encoded in its place. The header is fitted
/// around it afterwards, which moves bytes only for very short and very long payloads.
pub(crate) fn append(
    bytes: &mut Vec<u8>,
    opcode: Opcode,
    mask: Option<[u8; 4]>,
    write: impl FnOnce(&mut Vec<u8>),
) {
    const EXPECTED_HEADER_BYTES: usize = 4;
    let mask_bytes = if mask.is_some() { 4 } else { 0 };
    let start = bytes.len();
    bytes.extend_from_slice(&[0; EXPECTED_HEADER_BYTES + 4][..EXPECTED_HEADER_BYTES + mask_bytes]);
    let mut payload_start = bytes.len();
    write(bytes);
    let payload_bytes = bytes.len() - payload_start;
    let header_bytes = match payload_bytes {
        0..=125 => 2,
        126..=0xffff => 4,
        _ => 10,
    };
    if header_bytes != EXPECTED_HEADER_BYTES {
        let moved_start = start + header_bytes + mask_bytes;
        bytes.resize(bytes.len().max(moved_start + payload_bytes), 0);
        bytes.copy_within(payload_start..payload_start + payload_bytes, moved_start);
        bytes.truncate(moved_start + payload_bytes);
        payload_start = moved_start;
    }
    let mask_flag = if mask.is_some() { 0x80 } else { 0 };
    bytes[start] = 0x80 | opcode as u8;
    let length = payload_bytes as u64;
    match header_bytes {
        2 => bytes[start + 1] = mask_flag | length.to_be_bytes()[7],
        4 => {
            bytes[start + 1] = mask_flag | 126;
            bytes[start + 2..start + 4].copy_from_slice(&length.to_be_bytes()[6..]);
        }
        _ => {
            bytes[start + 1] = mask_flag | 127;
            bytes[start + 2..start + 10].copy_from_slice(&length.to_be_bytes());
        }
    }
    if let Some(mask) = mask {
        bytes[payload_start - 4..payload_start].copy_from_slice(&mask);
        apply_mask(&mut bytes[payload_start..], mask);
    }
}

#[cfg(test)]
mod tests;
