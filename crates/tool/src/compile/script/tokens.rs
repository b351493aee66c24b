//! The tokens of a JavaScript file. Tells code from comments, strings, templates and regular expressions, and says where
//! something is never closed; knows no grammar beyond that.

use super::Flaw;

/// In search of regular expressions that are none, a file is read so many times more.
const WASTED_FILES_MAX: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'s> {
    /// An identifier, keyword or number.
    Word(&'s str),
    Symbol(char),
    /// A string, template or regular expression.
    Literal,
}

/// `Err` names the first line where something is opened and never closed, or closed and never opened.
pub(super) fn scan(source: &str) -> Result<Vec<Token<'_>>, Flaw> {
    let mut scanner = Scanner {
        source,
        at: 0,
        tokens: Vec::new(),
        open: Vec::new(),
        closed_statement: false,
        wasted: 0,
    };
    if source.starts_with("#!") {
        scanner.at = source.find('\n').unwrap_or(source.len());
    }
    scanner.run()?;
    Ok(scanner.tokens)
}

struct Scanner<'s> {
    source: &'s str,
    at: usize,
    tokens: Vec<Token<'s>>,
    open: Vec<Opened>,
    /// Whether the bracket that was closed last ended a head or a block, behind which a statement begins.
    closed_statement: bool,
    /// How many bytes were read in search of the ends of regular expressions that were none.
    wasted: usize,
}

struct Opened {
    kind: Bracket,
    /// The byte where it was opened.
    at: usize,
    is_statement: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bracket {
    Round,
    Square,
    Curly,
    /// The `${` of a template.
    Template,
}

impl Bracket {
    fn shown(self) -> &'static str {
        match self {
            Self::Round => "(",
            Self::Square => "[",
            Self::Curly => "{",
            Self::Template => "${",
        }
    }
}

impl<'s> Scanner<'s> {
    fn rest(&self) -> &'s str {
        &self.source[self.at..]
    }

    fn flaw(&self, at: usize, message: impl Into<String>) -> Flaw {
        let before = &self.source.as_bytes()[..at.min(self.source.len())];
        Flaw {
            line: Some(1 + before.iter().filter(|byte| **byte == b'\n').count()),
            message: message.into(),
            cure: "close what is opened there; nothing of the file runs as it is",
        }
    }

    fn run(&mut self) -> Result<(), Flaw> {
        while let Some(character) = self.rest().chars().next() {
            match character {
                '"' | '\'' => self.string(character)?,
                '`' => {
                    let at = self.at;
                    self.at += 1;
                    self.template(at)?;
                }
                '/' if self.rest().starts_with("//") => {
                    self.at += self.rest().find('\n').unwrap_or(self.rest().len())
                }
                '/' if self.rest().starts_with("/*") => self.comment()?,
                '/' if self.expects_value() && self.regular_expression() => {}
                '(' | '[' | '{' => self.opening(character),
                ')' | ']' | '}' => self.closing(character)?,
                _ if is_word(character) => self.word(),
                _ => {
                    self.at += character.len_utf8();
                    if !character.is_whitespace() {
                        self.tokens.push(Token::Symbol(character));
                    }
                }
            }
        }
        match self.open.last() {
            Some(opened) => {
                let message = format!("the `{}` of this line is never closed", opened.kind.shown());
                Err(self.flaw(opened.at, message))
            }
            None => Ok(()),
        }
    }

    fn opening(&mut self, character: char) {
        let before = self.tokens.last().copied();
        let (kind, is_statement) = match character {
            '(' => {
                let head = matches!(before, Some(Token::Word("if" | "while" | "for" | "with")));
                (Bracket::Round, head)
            }
            '[' => (Bracket::Square, false),
            _ => (Bracket::Curly, begins_block(before)),
        };
        self.open.push(Opened {
            kind,
            at: self.at,
            is_statement,
        });
        self.at += 1;
        self.tokens.push(Token::Symbol(character));
    }

    fn closing(&mut self, character: char) -> Result<(), Flaw> {
        let at = self.at;
        self.at += 1;
        let Some(opened) = self.open.pop() else {
            return Err(self.flaw(at, format!("the `{character}` of this line closes nothing")));
        };
        match (opened.kind, character) {
            (Bracket::Template, '}') => self.template(opened.at),
            (Bracket::Round, ')') | (Bracket::Square, ']') | (Bracket::Curly, '}') => {
                self.closed_statement = opened.is_statement;
                self.tokens.push(Token::Symbol(character));
                Ok(())
            }
            (kind, _) => {
                let shown = kind.shown();
                let message = format!("the `{character}` of this line closes a `{shown}`");
                Err(self.flaw(at, message))
            }
        }
    }

    fn word(&mut self) {
        let rest = self.rest();
        let length = rest
            .find(|character| !is_word(character))
            .unwrap_or(rest.len());
        self.tokens.push(Token::Word(&rest[..length]));
        self.at += length;
    }

    fn comment(&mut self) -> Result<(), Flaw> {
        let Some(length) = self.rest()[2..].find("*/") else {
            return Err(self.flaw(
                self.at,
                "the comment that begins in this line is never closed",
            ));
        };
        self.at += length + 4;
        Ok(())
    }

    /// Goes behind the next of the characters that is not escaped, and returns it.
    fn skip_to_unescaped(&mut self, ends: &[char]) -> Option<char> {
        let mut characters = self.rest().char_indices();
        while let Some((offset, character)) = characters.next() {
            if character == '\\' {
                characters.next();
            } else if ends.contains(&character) {
                self.at += offset + character.len_utf8();
                return Some(character);
            }
        }
        self.at = self.source.len();
        None
    }

    fn string(&mut self, quote: char) -> Result<(), Flaw> {
        let at = self.at;
        self.at += 1;
        if self.skip_to_unescaped(&[quote, '\n']) != Some(quote) {
            return Err(self.flaw(at, "a string that begins in this line is never closed"));
        }
        self.tokens.push(Token::Literal);
        Ok(())
    }

    /// The text of a template that began at `at`, up to its end or its next `${`.
    fn template(&mut self, at: usize) -> Result<(), Flaw> {
        loop {
            match self.skip_to_unescaped(&['`', '$']) {
                Some('$') if self.rest().starts_with('{') => {
                    self.at += 1;
                    self.open.push(Opened {
                        kind: Bracket::Template,
                        at,
                        is_statement: false,
                    });
                    // What is inside is an expression: a token keeps it apart from the code before the template.
                    self.tokens.push(Token::Symbol(','));
                    return Ok(());
                }
                Some('$') => {}
                Some(_) => {
                    self.tokens.push(Token::Literal);
                    return Ok(());
                }
                None => {
                    let message = "the template that begins in this line is never closed";
                    return Err(self.flaw(at, message));
                }
            }
        }
    }

    /// `false` where there is none after all, because the line ends before it does, or where there were so many of
    /// these that another search may read the line once too often.
    fn regular_expression(&mut self) -> bool {
        if self.wasted > WASTED_FILES_MAX * self.source.len() {
            return false;
        }
        let begin = self.at;
        self.at += 1;
        loop {
            match self.skip_to_unescaped(&['/', '[', '\n']) {
                Some('/') => break,
                // In a class a slash is a character like any other.
                Some('[') if self.skip_to_unescaped(&[']', '\n']) == Some(']') => {}
                _ => {
                    self.wasted += self.at - begin;
                    self.at = begin;
                    return false;
                }
            }
        }
        self.tokens.push(Token::Literal);
        true
    }

    /// Whether a slash here begins a regular expression; behind a value it divides.
    fn expects_value(&self) -> bool {
        match self.tokens.as_slice() {
            [.., Token::Symbol(')' | '}')] => self.closed_statement,
            [.., Token::Symbol(']') | Token::Literal]
            | [.., Token::Symbol('+'), Token::Symbol('+')]
            | [.., Token::Symbol('-'), Token::Symbol('-')] => false,
            [] | [.., Token::Symbol(_)] => true,
            [.., Token::Word(word)] => precedes_value(word),
        }
    }
}

/// Whether a brace behind this token opens a block, and no object.
fn begins_block(before: Option<Token<'_>>) -> bool {
    match before {
        None | Some(Token::Symbol(')' | ';' | '{' | '}' | '>')) => true,
        Some(Token::Symbol(_)) => false,
        Some(Token::Word(word)) => !precedes_value(word) || matches!(word, "else" | "do"),
        Some(Token::Literal) => true,
    }
}

/// Whether a value stands behind a word, and no operator.
fn precedes_value(word: &str) -> bool {
    matches!(
        word,
        "return"
            | "typeof"
            | "case"
            | "in"
            | "of"
            | "delete"
            | "void"
            | "throw"
            | "new"
            | "else"
            | "await"
            | "yield"
            | "instanceof"
            | "do"
    )
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '$'
}
