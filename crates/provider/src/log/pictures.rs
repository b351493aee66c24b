//! Pictures that are taken out of a log again: one that a server refuses would have it refuse every later request, too.

use super::{Body, ConversationLog, Message, Size, UserPart};
use windlass_tool::sensitive::Sensitive;

impl ConversationLog {
    /// Puts words in the place of each picture of the newest turn, and says whether there were any. What was said earlier was
    /// taken already.
    pub fn leave_out_newest_pictures(&mut self, words: &str) -> bool {
        let newest = self.messages.iter_mut().rev();
        let Some(Message {
            body: Body::User(parts),
            size,
        }) = newest.into_iter().find(|message| message.begins_turn())
        else {
            return false;
        };
        let mut has_pictures = false;
        for part in parts {
            let before = match part {
                UserPart::Image(image) => image.size(),
                UserPart::Text(_) | UserPart::Notice(_) | UserPart::Interrupted => continue,
            };
            has_pictures = true;
            *part = UserPart::Text(Sensitive(words.to_owned()));
            let after = Size::of(words);
            size.characters = size.characters + after.characters - before.characters;
            size.bytes = size.bytes + after.bytes - before.bytes;
            self.bytes = self.bytes + after.bytes - before.bytes;
        }
        has_pictures
    }
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
