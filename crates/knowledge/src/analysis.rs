//! Turns text into the terms that are indexed and searched: words without case, diacritics and English endings, and
//! without the words that say nothing. Knows no index and no query.

use frostem::{Algorithm, Stemmer};
use std::borrow::Cow;
use std::collections::HashMap;
use std::str::CharIndices;
use tantivy::tokenizer::{
    AsciiFoldingFilter, LowerCaser, RemoveLongFilter, StopWordFilter, TextAnalyzer, Token,
    TokenFilter, TokenStream, Tokenizer,
};

/// Bytes of a word. Longer ones are encoded data, not language, and are not indexed.
const WORD_BYTES_MAX: usize = 64;

/// English words that carry no meaning of their own, and those that only make a sentence a question.
const STOP_WORDS: &str = "a about all also am an and any anybody anyone are as at be because been being between both \
    but by can could did do does doing done each for from had has have having he her here hers him his how i if in \
    into is it its just know let many may me might more most much must my of on or our out over please s shall she \
    should so some something such t tell than that the their them then there these they this those through to too \
    under until up upon us very was we were what whatever when where whether which while who whom whose why will with \
    would you your";

/// The analysis that index, query and snippet share. Cheap to clone; a clone is needed wherever text is analysed, since
/// it holds the buffer of the current word.
pub(crate) fn analyser() -> TextAnalyzer {
    TextAnalyzer::builder(Words::default())
        .filter(RemoveLongFilter::limit(WORD_BYTES_MAX))
        .filter(LowerCaser)
        .filter(AsciiFoldingFilter)
        .filter(StopWordFilter::remove(
            STOP_WORDS.split_whitespace().map(str::to_owned),
        ))
        .filter(EnglishStems)
        .build()
}

/// The same without the cutting of endings: what a person would call the spelling of a word.
pub(crate) fn plain() -> TextAnalyzer {
    TextAnalyzer::builder(Words::default())
        .filter(RemoveLongFilter::limit(WORD_BYTES_MAX))
        .filter(LowerCaser)
        .filter(AsciiFoldingFilter)
        .filter(StopWordFilter::remove(
            STOP_WORDS.split_whitespace().map(str::to_owned),
        ))
        .build()
}

/// The same as another analysis, for much text: each different word goes through it once. Needs the memory that the words
/// take.
pub(crate) fn remembering(analyser: TextAnalyzer) -> TextAnalyzer {
    TextAnalyzer::builder(Remembering {
        words: Words::default(),
        analyser,
        terms: HashMap::new(),
    })
    .build()
}

/// A word of a text that says something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// As it is indexed.
    pub(crate) term: String,
    /// Without case and diacritics.
    pub(crate) plain: String,
    /// Its place among all words of the text.
    pub(crate) position: usize,
    /// Bytes of the text.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// The words of a text in both forms. The analysers are those of [`plain`] and [`analyser`].
pub(crate) fn words(
    text: &str,
    plain: &mut TextAnalyzer,
    analyser: &mut TextAnalyzer,
) -> Vec<Word> {
    let mut spelt = plain.token_stream(text);
    let mut stemmed = analyser.token_stream(text);
    let mut words = Vec::new();
    while spelt.advance() && stemmed.advance() {
        let token = spelt.token();
        words.push(Word {
            term: stemmed.token().text.clone(),
            plain: token.text.clone(),
            position: token.position,
            start: token.offset_from,
            end: token.offset_to,
        });
    }
    words
}

/// The byte ranges of all words of a text, stop words included: the `n`th is that of the term at position `n`.
pub(crate) fn word_ranges(text: &str) -> Vec<(usize, usize)> {
    let mut words = Words::default();
    let mut stream = words.token_stream(text);
    let mut ranges = Vec::new();
    while stream.advance() {
        ranges.push((stream.token().offset_from, stream.token().offset_to));
    }
    ranges
}

/// Splits text into runs of letters and digits. A combining mark belongs to the letter before it and is left out of the
/// term, so that `å` is the same word whether it is one character or two.
#[derive(Clone, Default)]
struct Words {
    token: Token,
}

struct WordStream<'a> {
    text: &'a str,
    characters: CharIndices<'a>,
    token: &'a mut Token,
}

impl Tokenizer for Words {
    type TokenStream<'a> = WordStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream<'a> {
        self.token.reset();
        WordStream {
            text,
            characters: text.char_indices(),
            token: &mut self.token,
        }
    }
}

/// The Unicode block "Combining Diacritical Marks".
fn is_combining_mark(character: char) -> bool {
    matches!(character, '\u{300}'..='\u{36f}')
}

impl TokenStream for WordStream<'_> {
    fn advance(&mut self) -> bool {
        self.token.text.clear();
        let Some((start, first)) = self
            .characters
            .find(|(_, character)| character.is_alphanumeric())
        else {
            return false;
        };
        self.token.position = self.token.position.wrapping_add(1);
        self.token.offset_from = start;
        self.token.offset_to = self.text.len();
        self.token.text.push(first);
        for (offset, character) in self.characters.by_ref() {
            if character.is_alphanumeric() {
                self.token.text.push(character);
            } else if !is_combining_mark(character) {
                self.token.offset_to = offset;
                break;
            }
        }
        true
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}

/// Different words whose terms are remembered; the words after them are analysed every time. A language has its most
/// frequent words among the first.
const REMEMBERED_MAX: usize = 32_768;

/// Splits text into words, and gives each the term that an analysis has for it.
#[derive(Clone)]
struct Remembering {
    words: Words,
    analyser: TextAnalyzer,
    /// By the word as it is written; `None` for one that has no term.
    terms: HashMap<Box<str>, Option<Box<str>>>,
}

struct RememberingStream<'a> {
    words: WordStream<'a>,
    analyser: &'a mut TextAnalyzer,
    terms: &'a mut HashMap<Box<str>, Option<Box<str>>>,
}

impl Tokenizer for Remembering {
    type TokenStream<'a> = RememberingStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> RememberingStream<'a> {
        RememberingStream {
            words: self.words.token_stream(text),
            analyser: &mut self.analyser,
            terms: &mut self.terms,
        }
    }
}

impl RememberingStream<'_> {
    /// The term of a word that was not met before.
    fn analyse(&mut self) -> Option<Box<str>> {
        let word = &self.words.token.text;
        let mut stream = self.analyser.token_stream(word);
        // A word is letters and digits and nothing else, so that it is one word to the analysis as well.
        let term: Option<Box<str>> = stream
            .advance()
            .then(|| stream.token().text.as_str().into());
        if self.terms.len() < REMEMBERED_MAX {
            self.terms.insert(word.as_str().into(), term.clone());
        }
        term
    }
}

impl TokenStream for RememberingStream<'_> {
    fn advance(&mut self) -> bool {
        while self.words.advance() {
            if let Some(term) = self.terms.get(self.words.token.text.as_str()) {
                if let Some(term) = term {
                    self.words.token.text.clear();
                    self.words.token.text.push_str(term);
                    return true;
                }
            } else if let Some(term) = self.analyse() {
                self.words.token.text = term.into();
                return true;
            }
        }
        false
    }

    fn token(&self) -> &Token {
        self.words.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.words.token
    }
}

/// Cuts English endings with the Snowball stemmer.
#[derive(Clone, Copy)]
struct EnglishStems;

impl TokenFilter for EnglishStems {
    type Tokenizer<T: Tokenizer> = StemmedWords<T>;

    fn transform<T: Tokenizer>(self, words: T) -> StemmedWords<T> {
        StemmedWords { words }
    }
}

#[derive(Clone)]
struct StemmedWords<T> {
    words: T,
}

struct StemStream<S> {
    words: S,
    stemmer: Stemmer,
}

impl<T: Tokenizer> Tokenizer for StemmedWords<T> {
    type TokenStream<'a> = StemStream<T::TokenStream<'a>>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Self::TokenStream<'a> {
        StemStream {
            words: self.words.token_stream(text),
            stemmer: Stemmer::new(Algorithm::English),
        }
    }
}

impl<S: TokenStream> TokenStream for StemStream<S> {
    fn advance(&mut self) -> bool {
        if !self.words.advance() {
            return false;
        }
        let token = self.words.token_mut();
        // A stem is most often the word's own beginning, and then nothing is copied.
        let kept = match self.stemmer.stem(&token.text) {
            Cow::Borrowed(stem) if token.text.starts_with(stem) => Ok(stem.len()),
            stem => Err(stem.into_owned()),
        };
        match kept {
            Ok(length) => token.text.truncate(length),
            Err(stem) => token.text = stem,
        }
        true
    }

    fn token(&self) -> &Token {
        self.words.token()
    }

    fn token_mut(&mut self) -> &mut Token {
        self.words.token_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, terms: &[&str]) {
        let mut analyser = analyser();
        let mut stream = analyser.token_stream(text);
        let mut found = Vec::new();
        while stream.advance() {
            found.push(stream.token().text.clone());
        }
        assert_eq!(found, terms, "{text:?}");
    }

    #[test]
    fn terms_have_no_case_no_diacritics_and_no_endings() {
        check("Who designed the ship Fram?", &["design", "ship", "fram"]);
        check("designs DESIGNING design", &["design", "design", "design"]);
        check("Fram's hull", &["fram", "hull"]);
        check("Gjøa GJOA Åse a\u{30a}se", &["gjoa", "gjoa", "ase", "ase"]);
        check("1893–96", &["1893", "96"]);
        check("Ærø straße", &["aero", "strass"]);
    }

    #[test]
    fn what_is_no_word_gives_no_term() {
        check("", &[]);
        check("who is it, and what was that?", &[]);
        check("\"-\" 🚢🧊 -- '' \u{300}", &[]);
        check(&"x".repeat(65), &[]);
    }

    #[test]
    fn what_is_remembered_is_what_the_analysis_says() {
        let text = "The ships' hulls: Åse a\u{30a}se ÅSE who WHO ships 1893–96 Ærø straße 🚢 \
            Hjalmar Johansen, designing designs \u{300} the The";
        let text = format!("{text} {} {text} 船 ﬁord Straße", "x".repeat(65));
        for analysis in [analyser(), plain()] {
            let tokens = |analyser: &mut TextAnalyzer| {
                let mut stream = analyser.token_stream(&text);
                let mut tokens = Vec::new();
                while stream.advance() {
                    tokens.push(stream.token().clone());
                }
                tokens
            };
            let mut remembering = remembering(analysis.clone());
            for _ in 0..2 {
                assert_eq!(tokens(&mut remembering), tokens(&mut analysis.clone()));
            }
        }
    }

    #[test]
    fn word_ranges_count_as_term_positions_do() {
        let text = "The ship a\u{30a}se, 🚢 and her hull";
        let ranges = word_ranges(text);
        let mut analyser = analyser();
        let mut stream = analyser.token_stream(text);
        let mut words = Vec::new();
        while stream.advance() {
            let token = stream.token();
            assert_eq!(ranges[token.position], (token.offset_from, token.offset_to));
            words.push(&text[token.offset_from..token.offset_to]);
        }
        assert_eq!(words, ["ship", "a\u{30a}se", "hull"]);
        assert_eq!(ranges.len(), 6);
    }
}
