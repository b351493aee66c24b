//! Reads the text of a condition: from characters to tokens, and from tokens to expressions. Knows no fact and no kind.

use super::{
    BYTES_MAX, Comparison, Flaw, Literal, NAMES, NESTING_MAX, Node, Number, Operand, Place,
    Purpose, Term,
};
use crate::number;
use crate::wording::{brief, nearest};
use std::sync::Arc;

/// # Errors
///
/// The first place where the text cannot be parsed.
pub(super) fn parse(text: &str, purpose: Purpose) -> Result<Node, Flaw> {
    if text.len() > BYTES_MAX {
        return Err(Flaw {
            column: 1,
            message: format!(
                "the condition is {} bytes long, and {BYTES_MAX} are the limit",
                text.len()
            ),
            cure: "shorten it, or let the handler decide the rest".to_owned(),
        });
    }
    let tokens = tokens(text)?;
    let mut parser = Parser {
        text,
        purpose,
        tokens,
        next: 0,
        depth: 0,
    };
    let node = parser.any()?;
    match parser.peek().cloned() {
        None => Ok(node),
        Some(token) => Err(parser.unexpected(&token)),
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Token {
    /// The token's position in bytes.
    at: usize,
    kind: TokenKind,
}

#[derive(Clone, Debug, PartialEq)]
enum TokenKind {
    Name(Arc<str>),
    Text(Arc<str>),
    Number(Arc<str>),
    /// A mark of [`MARKS`] by its meaning: `==` also for `===`.
    Mark(&'static str),
}

/// Each mark and its meaning. Longer marks come first, so that a shorter one does not take the beginning of a longer one.
const MARKS: [(&str, &str); 18] = [
    ("===", "=="),
    ("!==", "!="),
    ("==", "=="),
    ("!=", "!="),
    ("<=", "<="),
    (">=", ">="),
    ("&&", "&&"),
    ("||", "||"),
    ("<", "<"),
    (">", ">"),
    ("!", "!"),
    ("(", "("),
    (")", ")"),
    ("[", "["),
    ("]", "]"),
    (",", ","),
    (".", "."),
    ("-", "-"),
];

fn flaw(text: &str, at: usize, message: impl Into<String>, cure: impl Into<String>) -> Flaw {
    let before = text.get(..at).unwrap_or(text);
    Flaw {
        column: before.chars().count() + 1,
        message: message.into(),
        cure: cure.into(),
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, Flaw> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let (kind, length) = if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        } else if is_name_start(first) {
            let end = rest.find(|character| !is_name_part(character));
            let name = &rest[..end.unwrap_or(rest.len())];
            (TokenKind::Name(name.into()), name.len())
        } else if first.is_ascii_digit() {
            let number = number_at(rest);
            (TokenKind::Number(number.into()), number.len())
        } else if first == '"' || first == '\'' {
            let (said, length) = text_at(text, at, first)?;
            (TokenKind::Text(said.into()), length)
        } else if let Some(&(mark, meant)) = MARKS.iter().find(|(mark, _)| rest.starts_with(mark)) {
            (TokenKind::Mark(meant), mark.len())
        } else {
            let cure = match first {
                '=' => "write == to compare",
                '&' => "write && for and",
                '|' => "write || for or",
                '`' | '“' | '”' | '‘' | '’' => "put texts in \" or '",
                _ => {
                    "a condition has names, numbers, texts in quotes, and && || ! == != < > <= >= in ( )"
                }
            };
            let message = format!("`{}` means nothing here", brief(&first.to_string()));
            return Err(flaw(text, at, message, cure));
        };
        tokens.push(Token { at, kind });
        at += length;
    }
    Ok(tokens)
}

/// Whether a text can be written as a name without brackets.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(is_name_start) && text.chars().all(is_name_part)
}

fn is_name_start(character: char) -> bool {
    character.is_alphabetic() || character == '_' || character == '$'
}

fn is_name_part(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '$'
}

/// The longest beginning of a text that may be a number.
fn number_at(rest: &str) -> &str {
    let mut before = ' ';
    let end = rest.find(|character: char| {
        let is_sign = matches!(character, '+' | '-') && matches!(before, 'e' | 'E');
        before = character;
        !(character.is_ascii_alphanumeric() || character == '.' || is_sign)
    });
    &rest[..end.unwrap_or(rest.len())]
}

/// The quoted text that begins at a place, and its length in the condition.
fn text_at(text: &str, at: usize, quote: char) -> Result<(String, usize), Flaw> {
    let mut said = String::new();
    let mut characters = text[at..].char_indices().skip(1);
    while let Some((offset, character)) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some((_, escaped @ ('\\' | '"' | '\''))) => said.push(escaped),
                Some(_) | None => {
                    let cure = "write \\\\ for a backslash; only \\\\, \\\" and \\' are known";
                    return Err(flaw(text, at + offset, "this escape is not known", cure));
                }
            },
            end if end == quote => return Ok((said, offset + quote.len_utf8())),
            other => said.push(other),
        }
    }
    let message = format!("the text that begins here has no {quote} at its end");
    Err(flaw(text, at, message, "close it"))
}

struct Parser<'t> {
    text: &'t str,
    purpose: Purpose,
    tokens: Vec<Token>,
    next: usize,
    /// The open brackets and `!`.
    depth: usize,
}

impl Parser<'_> {
    fn flaw(&self, at: usize, message: impl Into<String>, cure: impl Into<String>) -> Flaw {
        flaw(self.text, at, message, cure)
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next)
    }

    fn take(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.next).cloned();
        self.next += 1;
        token
    }

    /// Takes a mark if it comes next; its position.
    fn mark(&mut self, mark: &str) -> Option<usize> {
        let token = self.peek()?;
        let is_meant = matches!(token.kind, TokenKind::Mark(found) if found == mark);
        let at = token.at;
        is_meant.then(|| {
            self.next += 1;
            at
        })
    }

    fn end(&self) -> usize {
        self.text.trim_end().len()
    }

    fn unexpected(&self, token: &Token) -> Flaw {
        const CURE: &str = "join conditions with && or ||";
        let (shown, cure) = match &token.kind {
            TokenKind::Name(name) => {
                let cure = match name.as_ref() {
                    "and" => "write && for and",
                    "or" => "write || for or",
                    "not" => "write !(… in …) for not in",
                    _ => CURE,
                };
                (brief(name), cure)
            }
            TokenKind::Text(_) => ("a text".to_owned(), CURE),
            TokenKind::Number(number) => (brief(number), CURE),
            TokenKind::Mark("==" | "!=" | "<" | ">" | "<=" | ">=") => {
                let message = "one comparison follows another";
                let cure = "compare two values at a time, and join comparisons with &&";
                return self.flaw(token.at, message, cure);
            }
            TokenKind::Mark("-") => {
                let message = "nobody expects `-` here";
                return self.flaw(token.at, message, self.cure_of_minus(token.at));
            }
            TokenKind::Mark(mark) => (
                (*mark).to_owned(),
                "remove it, or complete what is before it",
            ),
        };
        self.flaw(token.at, format!("nobody expects `{shown}` here"), cure)
    }

    /// The cure for a minus behind a value, which may be a part of a name.
    fn cure_of_minus(&self, at: usize) -> String {
        const RECKONS: &str = "conditions compare, and do not reckon";
        let is_part = |character: char| is_name_part(character) || matches!(character, '-' | '.');
        let begin = self.text[..at].rfind(|character| !is_part(character));
        let begin = begin.map_or(0, |begin| {
            begin + self.text[begin..].chars().next().map_or(0, char::len_utf8)
        });
        let rest = &self.text[begin..];
        let end = rest.find(|character| !is_part(character));
        let whole = &rest[..end.unwrap_or(rest.len())];
        let plain = whole.strip_prefix("context.").unwrap_or(whole);
        let mut names = plain.split('.');
        let of = names.next().unwrap_or_default();
        let is_hyphened = plain.contains('-') && !plain.ends_with('-');
        match (of, is_hyphened) {
            ("args", true) if self.purpose == Purpose::Consent => {
                let place = Place::Argument(names.map(Arc::from).collect());
                let whole = place.to_string();
                format!(
                    "{RECKONS}; a name with a hyphen is written {}",
                    brief(&whole)
                )
            }
            ("config", true) => {
                "names under [condition_values] have letters, digits and _ alone".to_owned()
            }
            _ => format!("{RECKONS}: write the value itself"),
        }
    }

    fn missing(&self, what: &str) -> Flaw {
        let message = format!("{what} is missing");
        self.flaw(self.end(), message, "complete the condition")
    }

    fn deeper(&mut self, at: usize) -> Result<(), Flaw> {
        self.depth += 1;
        if self.depth <= NESTING_MAX {
            return Ok(());
        }
        let message = format!("brackets and ! stand more than {NESTING_MAX} deep in one another");
        Err(self.flaw(at, message, "write it flatter: && binds more than ||"))
    }

    fn any(&mut self) -> Result<Node, Flaw> {
        let mut parts = vec![self.all()?];
        while self.mark("||").is_some() {
            parts.push(self.all()?);
        }
        Ok(joined(parts, Node::Any))
    }

    fn all(&mut self) -> Result<Node, Flaw> {
        let mut parts = vec![self.comparison()?];
        while self.mark("&&").is_some() {
            parts.push(self.comparison()?);
        }
        Ok(joined(parts, Node::All))
    }

    fn comparison(&mut self) -> Result<Node, Flaw> {
        let begins = self.peek().map_or(self.end(), |token| token.at);
        let left = self.unary()?;
        let Some(token) = self.peek().cloned() else {
            return Ok(left);
        };
        let how = match &token.kind {
            TokenKind::Name(name) if &**name == "in" => None,
            TokenKind::Mark(mark) => match comparison_of(mark) {
                Some(how) => Some(how),
                None => return Ok(left),
            },
            TokenKind::Name(_) | TokenKind::Text(_) | TokenKind::Number(_) => return Ok(left),
        };
        self.next += 1;
        let left = self.operand_of(left, begins)?;
        let Some(how) = how else {
            let list = self.list()?;
            return Ok(Node::In { item: left, list });
        };
        let begins = self.peek().map_or(self.end(), |token| token.at);
        let right = self.unary()?;
        Ok(Node::Compare {
            left,
            how,
            at: token.at,
            right: self.operand_of(right, begins)?,
        })
    }

    /// The operand of a comparison: a value, and no condition.
    fn operand_of(&self, node: Node, at: usize) -> Result<Operand, Flaw> {
        match node {
            Node::Is(operand) => Ok(operand),
            Node::All(_) | Node::Any(_) | Node::Not(_) | Node::Compare { .. } | Node::In { .. } => {
                Err(self.flaw(
                    at,
                    "a condition is compared here, where only a value can be",
                    "leave the comparison out, and write ! before what must not hold",
                ))
            }
        }
    }

    fn unary(&mut self) -> Result<Node, Flaw> {
        let Some(at) = self.mark("!") else {
            return self.primary();
        };
        self.deeper(at)?;
        let inner = self.unary()?;
        self.depth -= 1;
        Ok(Node::Not(Box::new(inner)))
    }

    fn primary(&mut self) -> Result<Node, Flaw> {
        if let Some(at) = self.mark("(") {
            self.deeper(at)?;
            let inner = self.any()?;
            self.depth -= 1;
            self.close(")", at)?;
            return Ok(inner);
        }
        self.operand().map(Node::Is)
    }

    fn close(&mut self, mark: &str, opened: usize) -> Result<(), Flaw> {
        if self.mark(mark).is_some() {
            return Ok(());
        }
        match self.peek().cloned() {
            Some(token) => Err(self.unexpected(&token)),
            None => {
                let message = format!("the bracket that begins here has no {mark}");
                Err(self.flaw(opened, message, "close it"))
            }
        }
    }

    fn operand(&mut self) -> Result<Operand, Flaw> {
        let Some(token) = self.take() else {
            return Err(self.missing("a value"));
        };
        let at = token.at;
        let term = match &token.kind {
            TokenKind::Text(text) => Term::Literal(Literal::Text(text.clone())),
            TokenKind::Number(written) => Term::Literal(self.number("", written, at)?),
            TokenKind::Mark("-") => match self.take() {
                Some(Token {
                    kind: TokenKind::Number(written),
                    ..
                }) => Term::Literal(self.number("-", &written, at)?),
                _ => {
                    let cure = "conditions compare, and do not reckon: write the number itself";
                    return Err(self.flaw(at, "there is no number behind the minus", cure));
                }
            },
            TokenKind::Mark("[") => {
                let message = "a list stands where one value is needed";
                return Err(self.flaw(at, message, "write it behind `in`"));
            }
            TokenKind::Mark(_) => return Err(self.unexpected(&token)),
            TokenKind::Name(name) => match name.as_ref() {
                "true" => Term::Literal(Literal::Flag(true)),
                "false" => Term::Literal(Literal::Flag(false)),
                _ => Term::Place(self.place(name.clone(), at)?),
            },
        };
        Ok(Operand { at, term })
    }

    fn number(&self, sign: &str, written: &str, at: usize) -> Result<Literal, Flaw> {
        let written = format!("{sign}{written}");
        let Ok(number) = written.parse::<serde_json::Number>() else {
            let message = format!("`{}` is no number", brief(&written));
            return Err(self.flaw(at, message, "write it as in 100, -2.5 or 1e3"));
        };
        if let Some(problem) = number::problem_of(&number) {
            return Err(self.flaw(at, problem, "write a smaller one"));
        }
        Ok(Literal::Number(Number {
            whole: number::integer(&number),
            written: written.into(),
        }))
    }

    /// The right side of `in`.
    fn list(&mut self) -> Result<Operand, Flaw> {
        let (at, closing) = if let Some(at) = self.mark("(") {
            (at, ")")
        } else if let Some(at) = self.mark("[") {
            (at, "]")
        } else {
            return self.operand();
        };
        if self.mark(closing).is_some() {
            let term = Term::List(Vec::new());
            return Ok(Operand { at, term });
        }
        let mut items = Vec::new();
        loop {
            let operand = self.operand()?;
            match operand.term {
                Term::Literal(literal) => items.push(literal),
                // `in (roles)` is `in roles`.
                Term::Place(_) if items.is_empty() && self.mark(closing).is_some() => {
                    return Ok(operand);
                }
                Term::Place(_) | Term::List(_) => {
                    let cure =
                        "list texts, numbers, true or false, or write in and the name of one list";
                    let message = "a list is made of values that stand in the condition";
                    return Err(self.flaw(operand.at, message, cure));
                }
            }
            if self.mark(",").is_none() {
                self.close(closing, at)?;
                let term = Term::List(items);
                return Ok(Operand { at, term });
            }
        }
    }

    /// The place whose name begins with this word.
    fn place(&mut self, first: Arc<str>, at: usize) -> Result<Place, Flaw> {
        let mut names = vec![first];
        loop {
            if let Some(dot) = self.mark(".") {
                match self.take() {
                    Some(Token {
                        kind: TokenKind::Name(name),
                        ..
                    }) => names.push(name),
                    _ => {
                        let cure = match self.purpose {
                            Purpose::Availability => "write a name behind it, as in user.id",
                            Purpose::Consent => "write a member's name, as in args.amount",
                        };
                        return Err(self.flaw(dot, "there is no name behind the dot", cure));
                    }
                }
            } else if let Some(bracket) = self.mark("[") {
                match self.take() {
                    Some(Token {
                        kind: TokenKind::Text(name),
                        ..
                    }) => names.push(name),
                    _ => {
                        let cure = match self.purpose {
                            Purpose::Availability => "write the name behind a dot, as in user.id",
                            Purpose::Consent => {
                                "write the member's name in quotes, as in args[\"top-k\"]"
                            }
                        };
                        return Err(self.flaw(bracket, "there is no name in the bracket", cure));
                    }
                }
                self.close("]", bracket)?;
            } else {
                break;
            }
        }
        // The documents that this language comes from prefix its names with the handlers' object `context`.
        if names.len() > 1 && &*names[0] == "context" {
            names.remove(0);
        }
        self.named(&names, at)
    }

    fn named(&self, names: &[Arc<str>], at: usize) -> Result<Place, Flaw> {
        match names {
            [of, name] if &**of == "config" => return Ok(Place::Value(name.clone())),
            [of, members @ ..] if &**of == "args" && !members.is_empty() => {
                return Ok(Place::Argument(members.into()));
            }
            _ => {}
        }
        let whole: Vec<&str> = names.iter().map(|name| &**name).collect();
        let whole = whole.join(".");
        let known = NAMES.iter().find(|(name, _)| *name == whole);
        if let Some((_, place)) = known {
            return Ok(place.clone());
        }
        let cure = match whole.as_str() {
            "and" => "write && for and".to_owned(),
            "or" => "write || for or".to_owned(),
            "not" => "write ! for not".to_owned(),
            "args" if self.purpose == Purpose::Availability => {
                "leave args out: availability is judged before there is a call".to_owned()
            }
            "args" => "name an argument, as in args.amount".to_owned(),
            "config" => "name a value of [condition_values], as in config.beta".to_owned(),
            "roles.includes" => "write \"staff\" in roles".to_owned(),
            "null" | "undefined" => "a value that is not there has no name".to_owned(),
            _ => match nearest(&whole, NAMES.iter().map(|(name, _)| *name)) {
                Some(near) => format!("did you mean {near}?"),
                None => {
                    let all: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
                    let open = match self.purpose {
                        Purpose::Availability => "config.NAME",
                        Purpose::Consent => "config.NAME, args.NAME",
                    };
                    format!(
                        "the names are {}, {open}; texts stand in quotes",
                        all.join(", ")
                    )
                }
            },
        };
        Err(self.flaw(at, format!("there is no `{}`", brief(&whole)), cure))
    }
}

fn comparison_of(mark: &str) -> Option<Comparison> {
    Some(match mark {
        "==" => Comparison::Equal,
        "!=" => Comparison::Different,
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

fn joined(mut parts: Vec<Node>, join: fn(Vec<Node>) -> Node) -> Node {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        Some(last) => {
            parts.push(last);
            join(parts)
        }
        None => join(parts),
    }
}
