//! Whether a `handler.js` exports `execute`, found by reading its tokens. Runs nothing, and knows only as much
//! JavaScript as it takes to tell code from comments, strings and regular expressions.

/// `Err` says what is missing.
pub(super) fn check_exports(source: &str) -> Result<(), String> {
    let tokens = Scanner::new(source).tokens();
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate() {
        match token {
            Token::Symbol('{' | '(' | '[') => depth += 1,
            Token::Symbol('}' | ')' | ']') => depth = depth.saturating_sub(1),
            Token::Word("export") if depth == 0 && exports_execute(&tokens[index + 1..]) => {
                return Ok(());
            }
            Token::Word(_) | Token::Symbol(_) | Token::Literal => {}
        }
    }
    Err("the file does not export a function `execute`".to_owned())
}

/// Whether what follows the word `export` exports the name `execute`.
fn exports_execute(tokens: &[Token<'_>]) -> bool {
    use Token::{Symbol, Word};
    match tokens {
        [Word("async"), Word("function"), Word("execute"), ..]
        | [Word("function"), Word("execute"), ..]
        | [
            Word("const" | "let" | "var"),
            Word("execute"),
            Symbol('='),
            ..,
        ] => true,
        [Symbol('{'), list @ ..] => {
            let end = list
                .iter()
                .position(|token| *token == Symbol('}'))
                .unwrap_or(list.len());
            list[..end]
                .split(|token| *token == Symbol(','))
                .any(|name| matches!(name, [Word("execute")] | [_, Word("as"), Word("execute")]))
        }
        _ => false,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'s> {
    /// An identifier, keyword or number.
    Word(&'s str),
    Symbol(char),
    /// A string, template or regular expression.
    Literal,
}

struct Scanner<'s> {
    source: &'s str,
    at: usize,
    tokens: Vec<Token<'s>>,
    /// For each `${` of an open template, how many braces are open inside it.
    templates: Vec<usize>,
}

impl<'s> Scanner<'s> {
    fn new(source: &'s str) -> Self {
        Self {
            source,
            at: 0,
            tokens: Vec::new(),
            templates: Vec::new(),
        }
    }

    fn rest(&self) -> &'s str {
        &self.source[self.at..]
    }

    fn tokens(mut self) -> Vec<Token<'s>> {
        while let Some(character) = self.rest().chars().next() {
            match character {
                '"' | '\'' => self.string(character),
                '`' => {
                    self.at += 1;
                    self.template();
                }
                '/' if self.rest().starts_with("//") => self.skip_past("\n"),
                '/' if self.rest().starts_with("/*") => {
                    self.at += 2;
                    self.skip_past("*/");
                }
                '/' if self.expects_value() => self.regular_expression(),
                '}' if self.templates.last() == Some(&0) => {
                    self.templates.pop();
                    self.at += 1;
                    self.template();
                }
                _ if is_word(character) => self.word(),
                _ => self.symbol(character),
            }
        }
        self.tokens
    }

    fn symbol(&mut self, character: char) {
        self.at += character.len_utf8();
        if let Some(braces) = self.templates.last_mut() {
            match character {
                '{' => *braces += 1,
                '}' => *braces = braces.saturating_sub(1),
                _ => {}
            }
        }
        if !character.is_whitespace() {
            self.tokens.push(Token::Symbol(character));
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

    fn skip_past(&mut self, end: &str) {
        self.at += self
            .rest()
            .find(end)
            .map_or(self.rest().len(), |found| found + end.len());
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

    fn string(&mut self, quote: char) {
        self.at += 1;
        self.skip_to_unescaped(&[quote, '\n']);
        self.tokens.push(Token::Literal);
    }

    /// The text of a template, up to its end or its next `${`.
    fn template(&mut self) {
        loop {
            match self.skip_to_unescaped(&['`', '$']) {
                Some('$') if self.rest().starts_with('{') => {
                    self.at += 1;
                    self.templates.push(0);
                    // What is inside is an expression: a token keeps it apart from the code before the template.
                    self.tokens.push(Token::Symbol(','));
                    return;
                }
                Some('$') => {}
                _ => {
                    self.tokens.push(Token::Literal);
                    return;
                }
            }
        }
    }

    fn regular_expression(&mut self) {
        self.at += 1;
        while self.skip_to_unescaped(&['/', '[', '\n']) == Some('[') {
            // In a class a slash is a character like any other.
            if self.skip_to_unescaped(&[']', '\n']) != Some(']') {
                break;
            }
        }
        self.tokens.push(Token::Literal);
    }

    /// Whether a slash here begins a regular expression; behind a value it divides.
    fn expects_value(&self) -> bool {
        match self.tokens.last() {
            None | Some(Token::Symbol(_)) => {
                !matches!(self.tokens.last(), Some(Token::Symbol(')' | ']' | '}')))
            }
            Some(Token::Literal) => false,
            Some(Token::Word(word)) => matches!(
                *word,
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
            ),
        }
    }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '$'
}

#[cfg(test)]
mod tests {
    use super::check_exports;

    #[test]
    fn execute_has_to_be_exported_by_code() {
        for (source, good) in [
            ("export async function execute({ args }) {}", true),
            ("export function execute(context) {}", true),
            ("export const execute = async () => ({ ok: true });", true),
            (
                "async function run() {}\nexport { helper, run as execute };",
                true,
            ),
            ("function execute() {} export { execute }", true),
            (
                "const x = a / b; /* } */ export function execute() {}",
                true,
            ),
            ("const r = /[/`{\"]/g; export function execute() {}", true),
            (
                "const t = `a ${ {b: `}`}.b } $ \\` {`; export function execute() {}",
                true,
            ),
            ("if (x) { y } \n export function execute() {}", true),
            ("// export function execute() {}", false),
            ("/* export function execute() {} */", false),
            ("const s = 'export function execute() {}';", false),
            ("const s = `export function execute() {}`;", false),
            ("const r = /export function execute() {}/;", false),
            ("function f() { export function execute() {} }", false),
            ("export default function execute() {}", false),
            ("export function executeAll() {}", false),
            ("export { execute as run };", false),
            ("function execute() {}", false),
            ("", false),
            ("`${", false),
            ("'\\", false),
            ("/[", false),
        ] {
            assert_eq!(check_exports(source).is_ok(), good, "{source}");
        }
    }
}
