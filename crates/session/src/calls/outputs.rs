//! Pieces of a result that a running call shows before its end: the client sees some of them, by their number, size and rate. None is
//! kept; the result is whole without them.

use super::messages::note;
use super::open::{Call, Phase};
use crate::client::ClientUpdate;
use crate::dialogue::Dialogue;
use crate::limits::Limits;
use crate::time::Timestamp;
use serde_json::{Value, json};
use std::io;
use std::time::Duration;
use windlass_contract::sensitive::Sensitive;

const SECOND: Duration = Duration::from_secs(1);

/// The pieces that the handlers of a call have shown.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    /// The number of pieces given.
    given: u32,
    /// Bytes of the pieces that the client was shown.
    bytes: usize,
    /// The start of the second in which the last pieces came, and their number in it.
    second: Option<(Timestamp, u32)>,
    /// The audit has noted that pieces were left out.
    is_cut: bool,
}

/// Why a piece is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeftOut {
    /// The tool marks arguments as sensitive, which results repeat.
    Sensitive,
    TooMany,
    TooLong,
    TooFast,
}

impl LeftOut {
    fn as_str(self) -> &'static str {
        match self {
            Self::Sensitive => "sensitive arguments",
            Self::TooMany => "number",
            Self::TooLong => "size",
            Self::TooFast => "rate",
        }
    }
}

impl Outputs {
    /// Counts a piece. Returns its number, and why the client does not see it.
    fn take(&mut self, bytes: usize, now: Timestamp, limits: &Limits) -> (u32, Option<LeftOut>) {
        self.given = self.given.saturating_add(1);
        let left_out = self.left_out(bytes, now, limits);
        if left_out.is_none() {
            self.bytes += bytes;
        }
        (self.given, left_out)
    }

    fn left_out(&mut self, bytes: usize, now: Timestamp, limits: &Limits) -> Option<LeftOut> {
        if self.given > limits.outputs_per_call_max {
            return Some(LeftOut::TooMany);
        }
        let is_over = self.bytes.saturating_add(bytes) > limits.output_bytes_per_call_max;
        if bytes > limits.output_bytes_max || is_over {
            return Some(LeftOut::TooLong);
        }
        let (began, pieces) = match self.second {
            Some((began, pieces)) if now.since(began) < SECOND => (began, pieces),
            Some(_) | None => (now, 0),
        };
        if pieces >= limits.outputs_per_second_max {
            return Some(LeftOut::TooFast);
        }
        self.second = Some((began, pieces + 1));
        None
    }
}

/// Shows the client a piece, if its call runs and it is within the limits.
pub(super) fn pass_on(call: &mut Call, piece: Value, dialogue: &mut Dialogue) {
    let is_running = matches!(call.phase, Phase::Running(_));
    // The pieces of a nested call are for its handler to show.
    if !is_running || !call.spoken || call.nesting().is_some() {
        return;
    }
    let bytes = json_bytes(&piece);
    let (sequence, mut left_out) =
        call.said
            .outputs
            .take(bytes, dialogue.step.now, dialogue.step.limits());
    if !call.tool().sensitive.is_empty() {
        left_out = Some(LeftOut::Sensitive);
    }
    let Some(left_out) = left_out else {
        return dialogue.step.tell_client(ClientUpdate::ToolOutput {
            call: call.number(),
            sequence,
            data: Sensitive(piece),
        });
    };
    if !std::mem::replace(&mut call.said.outputs.is_cut, true) {
        let data = json!({ "sequence": sequence, "limit": left_out.as_str() });
        let event = "outputs_left_out".to_owned();
        dialogue.step.event(note(call, event, data));
    }
}

/// Bytes of a value as JSON, counted without writing it.
fn json_bytes(value: &Value) -> usize {
    struct Counter(usize);
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        // A value that cannot be written is no piece.
        Err(_) => usize::MAX,
    }
}
