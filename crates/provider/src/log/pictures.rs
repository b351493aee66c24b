//! Pictures of results, and pictures that are taken out of a log again: one that a server refuses would have it refuse
//! every later request, too.

use super::entry::{self, size_of_result};
use super::{
    AppendError, Body, ConversationLog, ENTRY_BYTES, Image, LoggedPiece, Message, Piece, Size,
    UserPart, check_length,
};
use std::sync::Arc;
use windlass_tool::envelope::ProjectionBody;
use windlass_tool::sensitive::Sensitive;

/// Said in the place of a result's picture that was taken out.
const RESULT_WITHOUT_PICTURE: &str =
    "its picture was refused by the model's provider, so that you cannot see it";

impl ConversationLog {
    /// Puts a picture beside the answer of the newest call of this id or, where it has none, of this name.
    pub(super) fn result_image(
        &mut self,
        id: Option<Arc<str>>,
        name: &str,
        image: Image,
    ) -> Result<(), AppendError> {
        let mut size = image.size();
        check_length("picture", size.bytes, self.limits.image_bytes_max)?;
        size.bytes += ENTRY_BYTES;
        self.make_room(size.bytes, false)?;
        let is_answered = |logged: &LoggedPiece| match &logged.piece {
            Piece::Call(call) => {
                logged.result.is_some() && call.id == id && (id.is_some() || *call.name == *name)
            }
            Piece::Text(_) => false,
        };
        for message in self.messages.iter_mut().rev() {
            let mut pieces = message.pieces_mut().iter_mut().rev();
            if let Some(answered) = pieces.find(|logged| is_answered(logged)) {
                answered.pictures.push(image);
                message.size.add(size);
                self.bytes += size.bytes;
                return Ok(());
            }
        }
        Err(AppendError::NoOpenCall)
    }

    /// Puts words in the place of each picture of the newest turn, of the user's and of results, and says whether there were
    /// any. What was said earlier was taken already.
    pub fn leave_out_newest_pictures(&mut self, words: &str) -> bool {
        let newest = self.messages.iter().rposition(Message::begins_turn);
        let Some(newest) = newest else {
            return false;
        };
        let mut has_pictures = false;
        for message in &mut self.messages[newest..] {
            let before = message.size.bytes;
            has_pictures |= match &mut message.body {
                Body::User(parts) => leave_out(parts, &mut message.size, words),
                Body::Answer(answer) => leave_out_of_results(&mut answer.pieces, &mut message.size),
            };
            self.bytes = self.bytes + message.size.bytes - before;
        }
        has_pictures
    }
}

impl Size {
    fn subtract(&mut self, other: Self) {
        self.characters -= other.characters;
        self.bytes -= other.bytes;
    }
}

fn leave_out(parts: &mut [UserPart], size: &mut Size, words: &str) -> bool {
    let mut has_pictures = false;
    for part in parts {
        let before = match part {
            UserPart::Image(image) => image.size(),
            UserPart::Text(_) | UserPart::Notice(_) | UserPart::Interrupted => continue,
        };
        has_pictures = true;
        *part = UserPart::Text(Sensitive(words.to_owned()));
        size.add(Size::of(words));
        size.subtract(before);
    }
    has_pictures
}

fn leave_out_of_results(pieces: &mut [LoggedPiece], size: &mut Size) -> bool {
    let mut has_pictures = false;
    for piece in pieces {
        let Some(result) = &mut piece.result else {
            continue;
        };
        let before = size_of_result(result);
        let ProjectionBody::Success { content, cut, .. } = &mut result.body else {
            continue;
        };
        if piece.pictures.is_empty() && entry::addressed(content).next().is_none() {
            continue;
        }
        has_pictures = true;
        content.clear();
        cut.get_or_insert_with(|| RESULT_WITHOUT_PICTURE.to_owned());
        size.add(size_of_result(result));
        size.subtract(before);
        for image in piece.pictures.drain(..) {
            let mut taken = image.size();
            taken.bytes += ENTRY_BYTES;
            size.subtract(taken);
        }
    }
    has_pictures
}

#[cfg(test)]
mod tests {
    use crate::log::{ConversationLog, Entry, Image, Limits};
    use std::sync::Arc;
    use windlass_tool::sensitive::Sensitive;

    fn picture() -> Entry {
        Entry::UserImage(Image {
            mime_type: "image/png".to_owned(),
            data: Sensitive(Arc::from([7; 3])),
        })
    }

    fn words(words: &str) -> Entry {
        Entry::UserText(Sensitive(words.to_owned()))
    }

    #[test]
    fn the_newest_turn_alone_loses_its_pictures_and_the_sums_stay_right() {
        let mut log = ConversationLog::new(Limits::default());
        for entry in [
            picture(),
            words("See?"),
            Entry::Text(crate::log::TextPiece::plain("Yes.".to_owned())),
        ] {
            log.append(entry).unwrap();
        }
        let mut expected = log.clone();
        for entry in [picture(), picture(), words("And these?")] {
            log.append(entry).unwrap();
        }
        for entry in [words("gone"), words("gone"), words("And these?")] {
            expected.append(entry).unwrap();
        }
        assert!(log.leave_out_newest_pictures("gone"));
        assert_eq!(format!("{log:?}"), format!("{expected:?}"));
        assert!(
            !log.leave_out_newest_pictures("gone"),
            "there are none left"
        );
    }
}
