//! The ways in which one value is written: moments, texts and numbers. The writer knows what each of them means, so that nothing here
//! compares as the ledger does.

use crate::count::Fault;
use crate::outside::OutsideRequest;
use crate::world::World;
use serde_json::Value;
use std::collections::BTreeMap;
use windlass_contract::arguments::Arguments;
use windlass_contract::id::EffectId;

/// Texts that are said in several forms: each in NFC, in NFD, and nearly the same.
const WORDS: [[&str; 3]; 3] = [
    ["Caf\u{e9} Nord", "Cafe\u{301} Nord", "CAF\u{c9} NORD"],
    [
        "Zo\u{eb} S\u{f8}rli",
        "Zoe\u{308} S\u{f8}rli",
        "Zoe S\u{f8}rli",
    ],
    ["Hall B 2", "Hall B 2", "\u{ff28}all B 2"],
];
/// Moments, each in several forms.
const MOMENTS: [[&str; 6]; 2] = [
    [
        "2026-12-01T09:00:00Z",
        "2026-12-01T09:00:00+00:00",
        "2026-12-01T09:00:00.000Z",
        "2026-12-01T10:00:00+01:00",
        "2026-12-01T04:00:00-05:00",
        "2026-12-01t09:00:00z",
    ],
    [
        "2026-12-01T09:30:00Z",
        "2026-12-01T09:30:00-00:00",
        "2026-12-01T09:30:00.0Z",
        "2026-12-01T15:00:00+05:30",
        "2026-12-02T00:30:00+15:00",
        "2026-12-01t09:30:00z",
    ],
];
/// Numbers, each in several spellings. Doubles hold the first and the second as one number, and so the third and the fourth.
const NUMBERS: [&[&str]; 6] = [
    &["2512292042121000001"],
    &["2512292042121000002"],
    &["9007199254740992", "9007199254740992.0"],
    &["9007199254740993"],
    &["1000", "1e3", "1000.0", "1.0E+3"],
    &["0.1", "0.10", "1e-1"],
];
/// Invisible characters.
const INVISIBLE: [&str; 3] = ["\u{200b}", "\u{feff}", "\u{2060}"];

/// A turn of a user, by session slot and onset.
pub(crate) type SpokenTurn = (usize, u64);

/// A change by its tool, its meaning, and whether its text is only near to others of that meaning.
type Written = (String, String, bool);

/// The spellings of texts.
#[derive(Default)]
pub(crate) struct Spellings {
    /// By the text: its index in [`WORDS`], and whether it is only near.
    texts: BTreeMap<String, (usize, bool)>,
    /// The time since which a change is known in a turn: it began then, or the model was told of it.
    known: BTreeMap<(Written, SpokenTurn), u64>,
    /// The turn in which the ledger was asked for an effect, and the time.
    requested: BTreeMap<EffectId, (SpokenTurn, u64)>,
}

/// The input of a tool whose arguments are spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spelled {
    words: usize,
    moment: Option<usize>,
    number: Option<usize>,
}

impl Spelled {
    pub(crate) fn meaning(self) -> String {
        let Self {
            words,
            moment,
            number,
        } = self;
        let moment = moment.map_or("", |moment| MOMENTS[moment][0]);
        let number = number.map_or("", |number| NUMBERS[number][0]);
        format!("{}|{moment}|{number}", WORDS[words][0])
    }
}

impl World {
    pub(crate) fn some_spelled(&mut self, tool: &str) -> Spelled {
        let has_number = tool == crate::tools::WIRE;
        Spelled {
            words: self.random.index(WORDS.len()),
            moment: (!has_number).then(|| self.random.index(MOMENTS.len())),
            number: has_number.then(|| self.random.index(NUMBERS.len())),
        }
    }

    /// Arguments with this meaning, as a model writes them. With `may_be_near`, in one turn of the user's, some are only near to it.
    pub(crate) fn spell(&mut self, spelled: Spelled, may_be_near: bool) -> Arguments {
        let is_near = may_be_near && self.random.one_in(3);
        let text = match (is_near, self.random.one_in(3)) {
            (true, _) => WORDS[spelled.words][2],
            (false, true) => WORDS[spelled.words][1],
            (false, false) => WORDS[spelled.words][0],
        };
        let text = match self.random.below(6) {
            0 => format!(" {text}"),
            1 => format!("{text}  "),
            2 => text.replacen(' ', "  ", 1),
            3 => text.replacen(' ', &format!("{} ", self.random.pick(&INVISIBLE)), 1),
            _ => text.to_owned(),
        };
        self.fault_if(is_near, Fault::TextNearlyTheSame);
        let is_other = !is_near && text != WORDS[spelled.words][0];
        self.fault_if(is_other, Fault::TextInOtherForm);
        let spellings = &mut self.intents.spellings;
        spellings
            .texts
            .insert(text.clone(), (spelled.words, is_near));
        let mut json = format!("{{\"text\":{}", Value::String(text));
        if let Some(moment) = spelled.moment {
            let form = self.random.index(MOMENTS[moment].len());
            self.fault_if(form > 0, Fault::MomentInOtherWords);
            json += &format!(",\"at\":\"{}\"", MOMENTS[moment][form]);
        }
        if let Some(number) = spelled.number {
            let forms = NUMBERS[number];
            let form = self.random.index(forms.len());
            self.fault_if(form > 0, Fault::NumberInOtherDigits);
            self.fault_if(number < 4, Fault::NumberBeyondDoubles);
            json += &format!(",\"sum\":{}", forms[form]);
        }
        json += "}";
        serde_json::from_str(&json).expect("the pieces above make an object")
    }
}

impl Spellings {
    /// The meaning of arguments; `None` for arguments that no model has written.
    pub(crate) fn meaning_of(&self, arguments: &Value) -> Option<String> {
        let text = arguments.get("text")?.as_str()?;
        let (words, _) = *self.texts.get(text)?;
        let moment = match arguments.get("at") {
            Some(at) => Some(MOMENTS.iter().position(|forms| {
                let mut forms = forms.iter();
                forms.any(|form| Some(*form) == at.as_str())
            })?),
            None => None,
        };
        let number = match arguments.get("sum") {
            Some(sum) => {
                let sum = exact(&sum.to_string());
                Some(NUMBERS.iter().position(|forms| exact(forms[0]) == sum)?)
            }
            None => None,
        };
        let spelled = Spelled {
            words,
            moment,
            number,
        };
        Some(spelled.meaning())
    }

    /// A change of these arguments begins, or the model is told of it.
    pub(crate) fn note_known(
        &mut self,
        tool: &str,
        arguments: &Arguments,
        turn: SpokenTurn,
        at_us: u64,
    ) {
        let arguments = serde_json::to_value(arguments).unwrap_or_default();
        let text = arguments.get("text").and_then(Value::as_str);
        if let Some((_, is_near)) = text.and_then(|text| self.texts.get(text)).copied()
            && let Some(meaning) = self.meaning_of(&arguments)
        {
            let written = (tool.to_owned(), meaning, is_near);
            self.known.entry((written, turn)).or_insert(at_us);
        }
    }

    /// The ledger is asked for an effect.
    pub(crate) fn note_request(&mut self, effect: &EffectId, turn: SpokenTurn, at_us: u64) {
        self.requested.insert(effect.clone(), (turn, at_us));
    }

    /// Whether a change may differ from an earlier one of the same tool and meaning: its spelling is only near, and the earlier one was
    /// not known in the turn of the request.
    pub(crate) fn are_told_apart(&self, earlier: &OutsideRequest, later: &OutsideRequest) -> bool {
        let is_near = |request: &OutsideRequest| self.texts.get(&request.text).map(|text| text.1);
        let (Some(was_near), Some(is_near)) = (is_near(earlier), is_near(later)) else {
            return false;
        };
        let is_known = self
            .requested
            .get(&later.effect_id)
            .is_some_and(|(turn, at_us)| {
                let written = (earlier.tool.clone(), earlier.meaning.clone(), was_near);
                let known_us = self.known.get(&(written, *turn));
                known_us.is_some_and(|known_us| known_us < at_us)
            });
        was_near != is_near && !is_known
    }
}

/// The exact value of a decimal number: its digits without zeros at either end, and the power of ten of the last one.
fn exact(number: &str) -> (bool, String, i64) {
    let (digits, power) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let power: i64 = power.parse().unwrap_or(0);
    let is_negative = digits.starts_with('-');
    let digits = digits.trim_start_matches('-');
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    let significant = all.trim_end_matches('0');
    let zeros = all.len() - significant.len();
    let power =
        power - i64::try_from(fraction.len()).unwrap_or(0) + i64::try_from(zeros).unwrap_or(0);
    (
        is_negative,
        significant.trim_start_matches('0').to_owned(),
        power,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_same_where_their_exact_values_are() {
        for forms in NUMBERS {
            for form in forms {
                assert_eq!(exact(form), exact(forms[0]), "{form}");
            }
        }
        let mut values: Vec<_> = NUMBERS.iter().map(|forms| exact(forms[0])).collect();
        values.sort();
        values.dedup();
        assert_eq!(values.len(), NUMBERS.len());
    }
}
