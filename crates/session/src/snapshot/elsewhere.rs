//! What was said in a conversation while one of its sessions lay in the store: by the conversation's own account, which has
//! the session's words, too, in the same order.

use crate::model::{HistoryEntry, Role};

/// What of the account follows the last that a session knows of it, without the question of `open_words`, which is put to
/// the model again, and what was said of an answer to it.
pub(super) fn said_since(
    known: &[HistoryEntry],
    account: &[HistoryEntry],
    open_words: Option<&str>,
) -> Vec<HistoryEntry> {
    let mut since = &account[last_known(known, account)..];
    if let Some(words) = open_words {
        let is_asked_again = |entry: &HistoryEntry| {
            entry.role == Role::User && words.contains(entry.text.expose().trim())
        };
        let mut asked = 0;
        while since.get(asked).is_some_and(is_asked_again) {
            asked += 1;
        }
        if asked > 0 {
            let answer = since[asked..].iter();
            let answer = answer.take_while(|entry| entry.role == Role::Assistant);
            since = &since[asked + answer.count()..];
        }
    }
    since.to_vec()
}

/// How many entries of the account come before what a session does not know: as far as the place where most of its last
/// words stand together. The newest that the account lacks, for want of time to be stored, do not count.
fn last_known(known: &[HistoryEntry], account: &[HistoryEntry]) -> usize {
    let Some(newest) = known.iter().rposition(|entry| account.contains(entry)) else {
        return 0;
    };
    let alike = |end: usize| {
        let own = known[..=newest].iter().rev();
        let theirs = account[..end].iter().rev();
        own.zip(theirs)
            .take_while(|(own, theirs)| own == theirs)
            .count()
    };
    // Of places that are alike the first: what is repeated is better than what is lost.
    let ends = (1..=account.len()).rev();
    ends.max_by_key(|end| alike(*end)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::said_since;
    use crate::model::{HistoryEntry, Role};
    use windlass_tool::sensitive::Sensitive;

    /// "u" stands before words of the user, "a" before those of the model.
    fn said(lines: &[&str]) -> Vec<HistoryEntry> {
        let entry = |line: &&str| HistoryEntry {
            role: match line.starts_with('u') {
                true => Role::User,
                false => Role::Assistant,
            },
            text: Sensitive(line[1..].to_owned()),
        };
        lines.iter().map(entry).collect()
    }

    fn check(known: &[&str], account: &[&str], open_words: Option<&str>, expected: &[&str]) {
        let since = said_since(&said(known), &said(account), open_words);
        assert_eq!(since, said(expected), "{known:?} {account:?}");
    }

    #[test]
    fn what_the_session_knows_is_not_said_again() {
        check(&["uhi", "ahello"], &["uhi", "ahello"], None, &[]);
        check(
            &["uhi", "ahello"],
            &["uhi", "ahello", "umore", "ayes"],
            None,
            &["umore", "ayes"],
        );
        check(&[], &["uhi", "ahello"], None, &["uhi", "ahello"]);
        check(&["uhi", "ahello"], &[], None, &[]);
    }

    #[test]
    fn an_account_that_lacks_the_beginning_or_the_last_words_is_understood() {
        check(
            &["uold", "aold", "uhi", "ahello"],
            &["ahello", "umore"],
            None,
            &["umore"],
        );
        check(
            &["uhi", "ahello", "ulost", "alost"],
            &["uhi", "ahello", "umore"],
            None,
            &["umore"],
        );
        check(&["ulost"], &["umore", "ayes"], None, &["umore", "ayes"]);
    }

    #[test]
    fn words_that_are_said_twice_are_told_apart_by_those_before_them() {
        let known = ["uone", "ayes"];
        check(
            &known,
            &["uone", "ayes", "utwo", "ayes"],
            None,
            &["utwo", "ayes"],
        );
        check(
            &["ayes"],
            &["ayes", "utwo", "ayes"],
            None,
            &["utwo", "ayes"],
        );
    }

    #[test]
    fn the_question_that_is_put_again_is_left_out_with_what_was_said_to_it() {
        let account = ["uhi", "ahello", "uwho", "awell", "umore", "ayes"];
        check(
            &["uhi", "ahello"],
            &account,
            Some("who"),
            &["umore", "ayes"],
        );
        check(&["uhi", "ahello"], &account, Some("other"), &account[2..]);
        let split = ["uhi", "ahello", "uwho", "ubuilt it?", "awell"];
        check(&["uhi", "ahello"], &split, Some("who built it?"), &[]);
    }
}
