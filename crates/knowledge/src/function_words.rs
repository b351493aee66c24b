//! Function words of the languages of questions: they build a sentence and hardly tell its subject. Defines their weight. Knows no index.
//!
//! English words without any meaning are no terms at all (`analysis`). Function words are indexed, because a record may be about them,
//! and count little in a question with other words.

use crate::analysis::Word;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;
use tantivy::Score;

/// The weight of a function word against any other. Measured on two collections: less loses as much as more.
const FUNCTION_WORD_WEIGHT: Score = 0.25;
/// The fewest different words of a list that put a question into its language. Some words have a meaning in another language: `die`,
/// `man`, `son`.
const WORDS_OF_A_LANGUAGE_MIN: usize = 2;

const ENGLISH: &str = "according actually after again against ago almost alone already although always am amid \
    anyhow anyway anywhere apart around ask asked asking asks aside away back became become becomes becoming before \
    begin bit bring came cannot certainly clearly come comes coming concerned concerning consider considered \
    currently despite during easily easy either else enough especially etc even eventually ever every everybody \
    everyone everything everywhere exactly except explain find finding finds followed following found further gave \
    general generally get gets getting give given gives giving go goes going gone got gotten had happen happened \
    happens hardly hello help hence hi however indeed instead involved keep keeps kept later lest like liked likely \
    likes look looked looking looks made mainly make makes making maybe mean means meanwhile merely mine mostly \
    namely necessary need needed needs neither never nevertheless no nobody none nonetheless nor not nothing now \
    nowhere obtain obtained obviously off often oh ok okay ones only onto opposed ought own particular particularly \
    perhaps possibly previously probably provide provided provides put quite rather really recently regard \
    regarding regards related relatively respectively said same saw say saying says see seeing seem seemed seems \
    seen shown similar simply since somebody somehow someone sometime sometimes somewhat somewhere soon still take \
    taken takes taking tell tells thank thanks think thinking thus together too took toward towards tried tries try \
    trying unless unlike unto use used user uses using usual usually various versus via want wanted wants way ways \
    went whatsoever wherever whether wish within without wonder work yes yet";

/// Without accents, like all lists.
const GERMAN: &str = "aber alle alles als also am an auch auf aus bei beim bekomme bekommen bin bis bitte da damit dann das \
    dass dein deine dem den denn der des dich die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine \
    einem einen einer eines er erst es etwas euch euer eure fur ganz geben gehen geht gibt habe haben hat hatte hier ich \
    ihm ihn ihnen ihr ihre ihrem ihren ihrer im in ins irgendwie ist ja jede jeder jetzt kann kein keine keinen komme \
    kommen konnen konnte konnten lange machen macht man manche mehr mein meine meinem meinen meiner mich mir mit mochte \
    muss mussen nach nicht nichts noch nun nur ob oder ohne sage sagen sagt schon sehr sein seine seiner selbst sich sie \
    sind so soll sollen sollte sondern uber um und uns unser unsere unter viel viele vom von vor wann war waren warum was \
    wegen weil welche welchem welchen welcher welches wenn wer werden weshalb wie wieder wieso will wir wird wo woher \
    wohin wollen worden wurde wurden zu zum zur zwischen";

const FRENCH: &str = "ai aller alors apres as au aucun aussi autre aux avec avez avoir avons ca ce cela celle celui ces \
    cet cette comment comme d dans de des doit donc dont du elle elles en est estce et etre eu faire fait faut il ils j je \
    jusqu l la le les leur leurs lui m ma mais me meme mes moi mon n ne nos notre nous on ont ou par pas peu peut peux \
    plus pour pourquoi puis quand que quel quelle quelles quels qui quoi qu s sa sans se sera ses si son sont sous sur ta \
    te tes toi ton tous tout toute tres tu un une va vos votre vous y";

const SPANISH: &str = "a al algo alguien ante antes aqui asi aunque cada como con cual cuales cuando cuanto de del desde \
    donde dos el ella ellas ellos en entre era eres es esa ese eso esta estan estas este esto estoy fue ha hace hacer hacia \
    han hasta hay la las le les lo los mas me mi mis mucho muy nada ni no nos nosotros o otra otro para pero por porque \
    puede puedo que quien quiero se sea ser si sin sobre son soy su sus tambien te tener tengo tiene toda todo todos tu tus \
    un una uno unos usted y ya yo";

const ITALIAN: &str = "a ad ai al alla alle anche c che chi ci come con cosa cui da dal dalla degli dei del della delle di \
    dove e ed era essere fare gli ha hai hanno ho i il in io l la le lei li lo loro lui ma mi mia mie mio nei nel nella noi \
    non o per perche piu posso puo qual quale quali quando quanto quella quello questa questo se sei si sia sono su sua sul \
    sulla suo ti tra tu tutti tutto un una uno vi voi vorrei";

const DUTCH: &str = "aan al alle als bij dan dat de der deze die dit door doen een en er gaan geen had heb hebben heeft het \
    hier hij hoe hun ik in is ja je jij jouw kan kunnen kunt maar me meer men met mij mijn moet moeten na naar niet niets \
    nog nu of om omdat ons onze ook op over te tegen toch toen tot u uit uw van veel voor waar waarom wanneer want waren was \
    wat we welke wel werd wie wij wil willen worden wordt ze zeer zich zij zijn zo zonder zou";

const PORTUGUESE: &str = "a ao aos as ate com como da das de dela dele deles depois do dos e ela elas ele eles em entre era \
    essa esse esta estao este eu faco fazer foi ha isso isto ja lhe mais mas me mesmo meu meus minha muito na nao nas nem no \
    nos nossa nosso num numa o onde os ou para pela pelo por porque posso pode quais qual quando que quem quero se sem ser \
    seu sua suas sao so tambem te tem tenho um uma voce voces";

const SCANDINAVIAN: &str = "af alle at att av bare ble blev da de deg dem den denne der det detta dette dig din dina ditt du \
    ej eller en er et ett fa for fra fran han har hennes hon hos hun hur hva hvad hvem hvor hvordan hvorfor i ikke inte jag \
    jeg kan kommer man med meg men mig min mina mit mitt mot mycket na nar noe nogen nu nar och og ogsa om op opp oss over \
    pa sa saa seg sig sin ska skal skulle som til till ud upp ut uten utan vad var vara vare ved vem vi vid vil vill vilken";

/// German words that hardly occur in any text of another language, except languages with the same kind of compounds.
const MARKERS: &str = "aber auch auf aus bei beim das dass dem der durch ein eine einem einen einer eines fur haben ich ihr \
    ihre ihrem ihren ihrer ist kann konnen mein meine meinen mit mussen nach nicht nur oder sich sie sind uber und unser vom \
    von vor wenn werden wie wird wir zu zum zur";

/// A list's index stands for its language.
static LANGUAGES: [&str; 8] = [
    ENGLISH,
    GERMAN,
    FRENCH,
    SPANISH,
    ITALIAN,
    DUTCH,
    PORTUGUESE,
    SCANDINAVIAN,
];

/// The languages of each word, as a set of bits.
static WORDS: LazyLock<HashMap<&'static str, u8>> = LazyLock::new(|| {
    let mut words: HashMap<&'static str, u8> = HashMap::new();
    for (language, list) in LANGUAGES.iter().enumerate() {
        for word in list.split_whitespace() {
            *words.entry(word).or_default() |= 1 << language;
        }
    }
    words
});

/// The weight of each word of a question.
pub(crate) fn weights(words: &[Word]) -> Vec<Score> {
    let languages = languages(words);
    let is_function_word = |word: &Word| languages_of(word) & languages != 0;
    words
        .iter()
        .map(|word| match is_function_word(word) {
            true => FUNCTION_WORD_WEIGHT,
            false => 1.0,
        })
        .collect()
}

fn languages_of(word: &Word) -> u8 {
    WORDS.get(word.plain.as_str()).copied().unwrap_or_default()
}

/// The possible languages of a question. English is always one, because terms lose their English endings.
fn languages(words: &[Word]) -> u8 {
    let mut seen = HashSet::new();
    let mut counts = [0_usize; LANGUAGES.len()];
    for word in words {
        if seen.insert(word.plain.as_str()) {
            let of_word = languages_of(word);
            for (language, count) in counts.iter_mut().enumerate() {
                *count += usize::from(of_word >> language & 1);
            }
        }
    }
    // Languages share many of these words, so only the one with the most counts.
    let most = counts[1..].iter().copied().max().unwrap_or_default();
    (1..LANGUAGES.len())
        .filter(|language| most >= WORDS_OF_A_LANGUAGE_MIN && counts[*language] == most)
        .fold(1, |set, language| set | 1 << language)
}

/// The words that identify German text.
pub(crate) fn german_markers() -> impl Iterator<Item = &'static str> {
    MARKERS.split_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis;

    #[track_caller]
    fn check(question: &str, telling: &[&str]) {
        let mut plain = analysis::plain();
        let words = analysis::words(question, &mut plain, &mut analysis::analyser());
        let weights = weights(&words);
        let found: Vec<&str> = words
            .iter()
            .zip(weights)
            .filter(|(_, weight)| *weight == 1.0)
            .map(|(word, _)| word.plain.as_str())
            .collect();
        assert_eq!(found, telling, "{question}");
    }

    #[test]
    fn function_words_are_told_from_words_that_say_something() {
        check("How do I get on the WLAN?", &["wlan"]);
        check("I want to know how to use the printer", &["printer"]);
        check("Wie lange ist die Kündigungsfrist?", &["kundigungsfrist"]);
        check(
            "¿Cómo puedo cambiar mi contraseña?",
            &["cambiar", "contrasena"],
        );
        check(
            "Comment est-ce que je change mon mot de passe",
            &["change", "mot", "passe"],
        );
        // A single word of another language proves nothing.
        check("Did the plant die?", &["plant", "die"]);
        check("son of the captain", &["son", "captain"]);
        check(
            "the first captain and the second voyage",
            &["first", "captain", "second", "voyage"],
        );
        check("", &[]);
    }

    #[test]
    fn every_marker_is_german() {
        for marker in german_markers() {
            assert!(
                GERMAN.split_whitespace().any(|word| word == marker),
                "{marker}"
            );
        }
    }
}
