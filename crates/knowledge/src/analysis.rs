//! Turns text into the terms that are indexed and searched: words without case, diacritics and English endings, and without meaningless
//! words; pairs of characters in scripts without blanks. Knows no index and no query.

use frostem::{Algorithm, Stemmer};
use std::borrow::Cow;
use std::collections::HashMap;
use tantivy::tokenizer::{
    AsciiFoldingFilter, LowerCaser, RemoveLongFilter, StopWordFilter, TextAnalyzer, Token,
    TokenFilter, TokenStream, Tokenizer,
};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// The most bytes of a word. Longer ones are encoded data, not language, and are not indexed.
const WORD_BYTES_MAX: usize = 64;

/// English words without a meaning of their own, and words that only turn a sentence into a question.
const STOP_WORDS: &str = "a about all also am an and any anybody anyone are as at be because been being between both \
    but by can could did do does doing done each for from had has have having he her here hers him his how i if in \
    into is it its just know let many may me might more most much must my of on or our out over please s shall she \
    should so some something such t tell than that the their them then there these they this those through to too \
    under until up upon us very was we were what whatever when where whether which while who whom whose why will with \
    would you your";

/// The analysis of questions and names. Cheap to clone; a clone is needed wherever text is analysed, since it holds the
/// buffer of the current word.
pub(crate) fn analyser() -> TextAnalyzer {
    stemming(TextUse::Asked)
}

/// The analysis of texts that are searched.
pub(crate) fn indexing() -> TextAnalyzer {
    stemming(TextUse::Indexed)
}

fn stemming(text_use: TextUse) -> TextAnalyzer {
    TextAnalyzer::builder(Words::of(text_use))
        .filter(RemoveLongFilter::limit(WORD_BYTES_MAX))
        .filter(LowerCaser)
        .filter(AsciiFoldingFilter)
        .filter(StopWordFilter::remove(
            STOP_WORDS.split_whitespace().map(str::to_owned),
        ))
        .filter(EnglishStems)
        .build()
}

/// The analysis that keeps endings: a person would call its terms the spelling of words.
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

/// Wraps an analysis of this use for much text: each different word is analysed once. Needs the memory for these words.
pub(crate) fn remembering(analyser: TextAnalyzer, text_use: TextUse) -> TextAnalyzer {
    TextAnalyzer::builder(Remembering {
        words: Words::of(text_use),
        analyser,
        terms: HashMap::new(),
    })
    .build()
}

/// A meaningful word of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// The word as it is indexed.
    pub(crate) term: String,
    /// The word without case and diacritics.
    pub(crate) plain: String,
    /// Its place among all words of the text.
    pub(crate) position: usize,
    /// The word's range in bytes of the text.
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Whether it is a part of another word of the list.
    pub(crate) is_part: bool,
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
            is_part: token.position_length == PART,
        });
    }
    words
}

/// The byte ranges of all words of a text, stop words included: the `n`th is that of the term at position `n`.
pub(crate) fn word_ranges(text: &str) -> Vec<(usize, usize)> {
    let mut words = Words::of(TextUse::Places);
    let mut stream = words.token_stream(text);
    let mut ranges = Vec::new();
    while stream.advance() {
        ranges.push((stream.token().offset_from, stream.token().offset_to));
    }
    ranges
}

/// The purpose for which a text is read. The purposes differ only in scripts without blanks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TextUse {
    /// A question or a name: a run of such a script gives its pairs of characters and, if it is short, the whole run.
    #[default]
    Asked,
    /// A text that is indexed: gives its single characters as well, for questions of one character.
    Indexed,
    /// The places of words: gives pairs that do not overlap.
    Places,
}

/// Splits text into runs of letters and digits. A combining mark belongs to the letter before it. Accents are left out of
/// the term, so that `å` is the same word whether it is one character or two; marks of other scripts are letters by their
/// meaning and stay.
///
/// Scripts that are written without blanks between words, and Korean, whose blanks stand between phrases, give pairs of
/// characters. A word of two scripts, as `Tシャツ`, is split where such a script begins or ends.
#[derive(Clone, Default)]
struct Words {
    token: Token,
    text_use: TextUse,
    run: Run,
}

/// A run of characters of a script without blanks.
#[derive(Clone, Default)]
struct Run {
    /// The characters as they are indexed.
    spelt: String,
    units: Vec<Unit>,
    grams: Vec<Gram>,
    /// The number of grams that have been read.
    read: usize,
    /// The position of the first unit.
    position: usize,
}

/// A character with its marks.
#[derive(Clone, Copy)]
struct Unit {
    start: usize,
    end: usize,
    /// The character's range in bytes of the run's spelling.
    spelt_start: usize,
    spelt_end: usize,
}

/// One token of a run: its first and last unit.
#[derive(Clone, Copy)]
struct Gram {
    first: usize,
    last: usize,
    /// Whether the whole run is a token, too.
    is_part: bool,
}

/// The most units of a run that counts as a word as well. Longer runs are clauses, which are not repeated.
const WORD_UNITS_MAX: usize = 12;
/// The most units that are read at a time. At such a cut only one pair is lost.
const RUN_UNITS_MAX: usize = 256;
/// The most bytes of a character with its marks. Longer sequences are no language.
const UNIT_BYTES_MAX: usize = 16;
/// The units of one place: about as much as a word of other scripts.
const UNITS_OF_A_PLACE: usize = 2;
/// The `position_length` of a token that lies within a token of the whole run.
const PART: usize = 2;

struct WordStream<'a> {
    text: &'a str,
    /// The byte at which the next word is searched.
    at: usize,
    /// The position of the next word.
    position: usize,
    text_use: TextUse,
    run: &'a mut Run,
    token: &'a mut Token,
}

impl Words {
    fn of(text_use: TextUse) -> Self {
        Self {
            text_use,
            ..Self::default()
        }
    }
}

impl Tokenizer for Words {
    type TokenStream<'a> = WordStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream<'a> {
        self.token.reset();
        self.run.grams.clear();
        self.run.read = 0;
        WordStream {
            text,
            at: 0,
            position: 0,
            text_use: self.text_use,
            run: &mut self.run,
            token: &mut self.token,
        }
    }
}

/// Whether a character belongs to a script that is read by pairs: Thai, Lao, Burmese, Khmer, Chinese, Japanese, Korean.
fn is_unspaced(character: char) -> bool {
    character >= '\u{e00}'
        && matches!(character,
            '\u{e00}'..='\u{eff}'
            | '\u{1000}'..='\u{109f}'
            | '\u{1100}'..='\u{11ff}'
            | '\u{1780}'..='\u{17ff}'
            | '\u{3005}'..='\u{3007}'
            | '\u{3041}'..='\u{318f}'
            | '\u{31a0}'..='\u{31bf}'
            | '\u{31f0}'..='\u{31ff}'
            | '\u{3400}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{9fff}'
            | '\u{a960}'..='\u{a97f}'
            | '\u{ac00}'..='\u{d7ff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{ff66}'..='\u{ffdc}'
            | '\u{20000}'..='\u{3ffff}')
}

/// Whether a character belongs to the one before it.
fn is_mark(character: char) -> bool {
    // No mark lies below this code, and most text does.
    character >= '\u{300}' && is_combining_mark(character) || is_invisible(character)
}

/// Characters that only control line breaks or the joining of letters. Records hold none of them.
fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}'
    )
}

/// Whether a mark is an accent, or selects how a character is drawn, and is left out of a term.
fn is_left_out(mark: char) -> bool {
    matches!(mark, '\u{300}'..='\u{36f}' | '\u{fe00}'..='\u{fe0f}') || is_invisible(mark)
}

/// Whether a character continues the character before it in a script without blanks: marks, the later letters of a Korean syllable that
/// is written letter by letter, and the voicing of half-width Japanese.
fn continues(character: char) -> bool {
    matches!(character, '\u{1160}'..='\u{11ff}' | '\u{ff9e}' | '\u{ff9f}') || is_mark(character)
}

impl WordStream<'_> {
    /// Reads a word of a script with blanks, from its first letter on.
    fn read_word(&mut self, start: usize) {
        let mut end = start;
        for character in self.text[start..].chars() {
            if character.is_alphanumeric() && !is_unspaced(character) {
                self.token.text.push(character);
            } else if !is_mark(character) {
                break;
            } else if !is_left_out(character) {
                self.token.text.push(character);
            }
            end += character.len_utf8();
        }
        self.token.offset_from = start;
        self.token.offset_to = end;
        self.token.position = self.position;
        self.token.position_length = 1;
        self.position += 1;
        self.at = end;
    }

    /// Reads a run of writing without blanks, from its first character on.
    fn read_run(&mut self, start: usize) {
        let run = &mut *self.run;
        run.units.clear();
        run.spelt.clear();
        run.grams.clear();
        run.read = 0;
        let mut end = start;
        for character in self.text[start..].chars() {
            let next = end + character.len_utf8();
            let is_full = run.units.len() == RUN_UNITS_MAX;
            match run.units.last_mut() {
                Some(unit) if continues(character) => unit.end = next,
                _ if is_full || !is_unspaced(character) || !character.is_alphanumeric() => break,
                _ => run.units.push(Unit {
                    start: end,
                    end: next,
                    spelt_start: 0,
                    spelt_end: 0,
                }),
            }
            end = next;
        }
        for unit in &mut run.units {
            unit.spelt_start = run.spelt.len();
            spell(&self.text[unit.start..unit.end], &mut run.spelt);
            unit.spelt_end = run.spelt.len();
        }
        run.cut(self.text_use);
        run.position = self.position;
        self.position += run.units.len().div_ceil(UNITS_OF_A_PLACE);
        self.at = end;
    }

    /// The next token of the run that was read last.
    fn take_gram(&mut self) -> bool {
        let Some(gram) = self.run.grams.get(self.run.read) else {
            return false;
        };
        let (first, last) = (self.run.units[gram.first], self.run.units[gram.last]);
        let spelt = &self.run.spelt[first.spelt_start..last.spelt_end];
        self.token.text.push_str(spelt);
        self.token.offset_from = first.start;
        self.token.offset_to = last.end;
        self.token.position = self.run.position + gram.first / UNITS_OF_A_PLACE;
        self.token.position_length = if gram.is_part { PART } else { 1 };
        self.run.read += 1;
        true
    }
}

/// A character with its marks, in the form that all its spellings share.
fn spell(unit: &str, spelt: &mut String) {
    let unit = &unit[..unit.floor_char_boundary(UNIT_BYTES_MAX)];
    let mut characters = unit.chars();
    let is_itself = |first: char| !matches!(first, '\u{1100}'..='\u{11ff}' | '\u{3131}'..='\u{318e}' | '\u{f900}'..='\u{faff}' | '\u{ff66}'..);
    if characters.next().is_some_and(is_itself) && characters.next().is_none() {
        spelt.push_str(unit);
    } else {
        spelt.extend(unit.chars().filter(|part| !is_left_out(*part)).nfkc());
    }
}

impl Run {
    /// Cuts the units into tokens.
    fn cut(&mut self, text_use: TextUse) {
        let count = self.units.len();
        if text_use == TextUse::Places {
            let firsts = (0..count).step_by(UNITS_OF_A_PLACE);
            self.grams.extend(firsts.map(|first| Gram {
                first,
                last: (first + UNITS_OF_A_PLACE).min(count) - 1,
                is_part: false,
            }));
            return;
        }
        let is_word = count <= WORD_UNITS_MAX && self.spelt.len() <= WORD_BYTES_MAX;
        if count == 1 || is_word && count > 2 {
            self.grams.push(Gram {
                first: 0,
                last: count - 1,
                is_part: false,
            });
        }
        for first in 0..count {
            if text_use == TextUse::Indexed && count > 1 {
                self.grams.push(Gram {
                    first,
                    last: first,
                    is_part: true,
                });
            }
            if first + 1 < count {
                self.grams.push(Gram {
                    first,
                    last: first + 1,
                    is_part: is_word && count > 2,
                });
            }
        }
    }
}

impl TokenStream for WordStream<'_> {
    fn advance(&mut self) -> bool {
        self.token.text.clear();
        if self.take_gram() {
            return true;
        }
        let found = self.text[self.at..]
            .char_indices()
            .find(|(_, character)| character.is_alphanumeric());
        let Some((skipped, first)) = found else {
            self.at = self.text.len();
            return false;
        };
        let start = self.at + skipped;
        if is_unspaced(first) {
            self.read_run(start);
            return self.take_gram();
        }
        self.read_word(start);
        true
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}

/// The most different words whose terms are remembered; later words are analysed every time. A language's most frequent words are among
/// the first.
const REMEMBERED_MAX: usize = 32_768;

/// Splits text into words, and gives each the term of an analysis.
#[derive(Clone)]
struct Remembering {
    words: Words,
    analyser: TextAnalyzer,
    /// The terms by the word as it is written; `None` for a word without a term.
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
    /// The term of a new word.
    fn analyse(&mut self) -> Option<Box<str>> {
        let word = &self.words.token.text;
        let mut stream = self.analyser.token_stream(word);
        // A word holds letters of one kind, their marks and digits, so it is one word to the analysis as well.
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
            // Pairs of characters are already terms, and too many to be remembered.
            if self
                .words
                .token
                .text
                .chars()
                .next()
                .is_some_and(is_unspaced)
            {
                return true;
            }
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
        // A stem is most often the beginning of the word, and then nothing is copied.
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
        check_reading(analyser(), text, terms);
    }

    fn check_reading(mut analyser: TextAnalyzer, text: &str, terms: &[&str]) {
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
        let text = format!(
            "{text} {} {text} 船 ﬁord Straße 阿蒙森的船 ｱﾑﾝｾﾞﾝ น้ำแข็ง हिन्दी iPhone充电器",
            "x".repeat(65)
        );
        let asked = [analyser(), plain()].map(|analysis| (analysis, TextUse::Asked));
        for (analysis, text_use) in asked.into_iter().chain([(indexing(), TextUse::Indexed)]) {
            let tokens = |analyser: &mut TextAnalyzer| {
                let mut stream = analyser.token_stream(&text);
                let mut tokens = Vec::new();
                while stream.advance() {
                    tokens.push(stream.token().clone());
                }
                tokens
            };
            let mut remembering = remembering(analysis.clone(), text_use);
            for _ in 0..2 {
                assert_eq!(tokens(&mut remembering), tokens(&mut analysis.clone()));
            }
        }
    }

    #[test]
    fn writing_without_blanks_gives_pairs_beside_short_words() {
        check("挪威的船", &["挪威的船", "挪威", "威的", "的船"]);
        check("船。木船", &["船", "木船"]);
        check_reading(indexing(), "木船", &["木", "木船", "船"]);
        check("서울에서", &["서울에서", "서울", "울에", "에서"]);
        check("シャツ", &["シャツ", "シャ", "ャツ"]);
        // A Thai character keeps its marks; half-width and decomposed letters equal the usual ones.
        check("น้ำแข็ง", &["น้ำแข็ง", "น้ำ", "ำแ", "แข็", "ข็ง"]);
        check("ｱﾑﾝｾﾞﾝ", &["アムンゼン", "アム", "ムン", "ンゼ", "ゼン"]);
        check(
            "\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}",
            &["한글"],
        );
        check("か\u{3099}く", &["がく"]);
        // A clause is no word and gives only its pairs.
        check(
            "これはとても長い文なのです",
            &[
                "これ", "れは", "はと", "とて", "ても", "も長", "長い", "い文", "文な", "なの",
                "ので", "です",
            ],
        );
    }

    #[test]
    fn a_word_of_two_scripts_is_split_between_them() {
        check("iPhone充电器", &["iphon", "充电器", "充电", "电器"]);
        check("Tシャツ2枚", &["シャツ", "シャ", "ャツ", "2", "枚"]);
        check("COVID19疫苗", &["covid19", "疫苗"]);
        check("SIMкарта", &["simкарта"]);
        check("हिन्दी", &["हिन्दी"]);
        check("mi\u{ad}ne m\u{200d}ine", &["mine", "mine"]);
        // Marks without end, and marks alone.
        check(
            &format!("船{}", "\u{3099}".repeat(500)),
            &["船\u{3099}\u{3099}\u{3099}\u{3099}"],
        );
        check("\u{e49}\u{3099}", &[]);
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

    #[test]
    fn word_ranges_never_overlap_and_hold_every_term_s_beginning() {
        let text = format!(
            "The 挪威的船 ice, Tシャツ2枚。서울에서 น้ำแข็ง! {}a{}",
            "船".repeat(700),
            "か\u{3099}".repeat(257)
        );
        let ranges = word_ranges(&text);
        assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        for mut analyser in [analyser(), indexing()] {
            let mut stream = analyser.token_stream(&text);
            while stream.advance() {
                let token = stream.token();
                let (start, end) = ranges[token.position];
                assert!((start..end).contains(&token.offset_from), "{token:?}");
            }
        }
    }
}
