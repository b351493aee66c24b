//! Pictures of results, and the removal of pictures from a log: a picture that a server refuses would make it refuse every later
//! request, too.

use super::entry::{self, size_of_result};
use super::{
    AppendError, Body, ConversationLog, ENTRY_BYTES, Image, LoggedPiece, Message, Size, UserPart,
    check_length,
};
use std::sync::Arc;
use windlass_contract::envelope::ProjectionBody;
use windlass_contract::sensitive::Sensitive;

/// Replaces a picture of a result that was taken out.
const RESULT_WITHOUT_PICTURE: &str =
    "its picture was refused by the model's provider, so that you cannot see it";

impl ConversationLog {
    /// Puts a picture beside the answer of the newest call with this id or, without an id, with this name.
    pub(super) fn result_image(
        &mut self,
        id: Option<Arc<str>>,
        name: &str,
        image: Image,
    ) -> Result<(), AppendError> {
        let mut size = image.size();
        check_length("picture", size.bytes, self.limits.image_bytes_max)?;
        size.bytes += ENTRY_BYTES;
        let is_answered = |logged: &LoggedPiece| {
            logged.result.is_some() && logged.piece.is_call_of(id.as_deref(), name)
        };
        if !self.has(is_answered) {
            return Err(AppendError::NoOpenCall);
        }
        self.make_room(size.bytes, false)?;
        for message in self.messages.iter_mut().rev() {
            let mut pieces = message.pieces_mut().iter_mut().rev();
            if let Some(answered) = pieces.find(|logged| is_answered(logged)) {
                answered.pictures.push(image);
                message.size.add(size);
                self.bytes += size.bytes;
                return Ok(());
            }
        }
        // The call's turn was the oldest, and had to make room for the call's own picture.
        Err(AppendError::NoOpenCall)
    }

    /// Puts words in the place of each picture of the newest turn, of the user's and of results. Returns whether there were any.
    /// Pictures of earlier turns were accepted before.
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
        *cut = Some(match cut.take() {
            Some(before) => format!("{before}, and {RESULT_WITHOUT_PICTURE}"),
            None => RESULT_WITHOUT_PICTURE.to_owned(),
        });
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
    use super::RESULT_WITHOUT_PICTURE;
    use crate::log::{AppendError, Call, ConversationLog, Entry, Image, Limits};
    use std::sync::Arc;
    use windlass_contract::envelope::{Projection, ProjectionBody};
    use windlass_contract::handler::ContentPart;
    use windlass_contract::sensitive::Sensitive;
    use windlass_session::model::{ModelToolResponse, UNNAMED};

    fn picture() -> Entry {
        Entry::UserImage(Image {
            mime_type: "image/png".to_owned(),
            data: Sensitive(Arc::from([7; 3])),
        })
    }

    fn words(words: &str) -> Entry {
        Entry::UserText(Sensitive(words.to_owned()))
    }

    /// A call without an id that names no tool, and its answer, which was cut for length and has a picture elsewhere.
    fn answered_call() -> [Entry; 2] {
        let call = Call {
            id: None,
            name: Arc::from(""),
            arguments: None,
            opaque: None,
        };
        let response = ModelToolResponse {
            id: None,
            name: Arc::from(UNNAMED),
            scheduling: None,
            projection: Projection {
                duration_ms: 1,
                body: ProjectionBody::Success {
                    data: None,
                    content: vec![ContentPart::Image {
                        mime_type: "image/png".to_owned(),
                        url: "https://example.org/a.png".to_owned(),
                    }],
                    cut: Some("2 texts were cut for length".to_owned()),
                    quoted: false,
                },
            },
        };
        [Entry::Call(call), Entry::Result(response)]
    }

    fn picture_of(name: &str) -> Entry {
        let Entry::UserImage(image) = picture() else {
            panic!("a picture is a picture");
        };
        Entry::ResultImage {
            id: None,
            name: Arc::from(name),
            image,
        }
    }

    #[test]
    fn a_result_that_was_cut_says_of_its_picture_that_it_is_gone() {
        let mut log = ConversationLog::new(Limits::default());
        log.append(words("See?")).unwrap();
        log.append_all(answered_call()).unwrap();
        assert!(log.leave_out_newest_pictures("gone"));
        let said = format!("{log:?}");
        for words in ["2 texts were cut for length, and", RESULT_WITHOUT_PICTURE] {
            assert!(said.contains(words), "{said}");
        }
    }

    #[test]
    fn a_picture_finds_its_call_as_the_result_does_and_without_one_nothing_is_forgotten() {
        let mut log = ConversationLog::new(Limits::default());
        log.append(words("First.")).unwrap();
        log.append(words("See?")).unwrap();
        log.append_all(answered_call()).unwrap();
        log.limits.bytes_max = log.bytes();
        let before = format!("{log:?}");
        let of_no_call = log.append(picture_of("other"));
        assert_eq!(of_no_call, Err(AppendError::NoOpenCall));
        assert_eq!(format!("{log:?}"), before);
        log.limits = Limits::default();
        assert_eq!(log.append(picture_of(UNNAMED)), Ok(()));
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
