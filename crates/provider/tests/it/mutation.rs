//! What becomes of frames on their way: every field of another type, and bytes that are cut, doubled and mixed. The same on
//! every run.

use serde_json::{Value, json};

/// Every place in a value, as a JSON pointer.
pub(crate) fn places(value: &Value) -> Vec<String> {
    let mut places = Vec::new();
    walk(value, "", &mut places);
    places
}

fn walk(value: &Value, at: &str, places: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let place = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
                walk(field, &place, places);
                places.push(place);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let place = format!("{at}/{index}");
                walk(item, &place, places);
                places.push(place);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The frame with one of its places missing, null, a text, a number, a list.
pub(crate) fn variants(frame: &Value, place: &str) -> Vec<Value> {
    let others = [json!(null), json!("unimplemented"), json!(7), json!([7])];
    let mut variants: Vec<Value> = others
        .into_iter()
        .map(|other| {
            let mut frame = frame.clone();
            *frame.pointer_mut(place).unwrap() = other;
            frame
        })
        .collect();
    let (parent, name) = place.rsplit_once('/').unwrap();
    let mut without = frame.clone();
    if let Some(Value::Object(fields)) = without.pointer_mut(parent) {
        fields.remove(name);
        variants.push(without);
    }
    variants
}

/// Frames by chance, from a seed.
pub(crate) struct Mutations {
    seed: u64,
    frames: Vec<Vec<u8>>,
    places: Vec<(usize, String)>,
    values: Vec<Value>,
}

impl Mutations {
    pub(crate) fn of(values: &[Value]) -> Self {
        let with_places = values.iter().enumerate();
        Self {
            seed: 1,
            frames: values
                .iter()
                .map(|value| value.to_string().into_bytes())
                .collect(),
            places: with_places
                .flat_map(|(index, value)| {
                    places(value).into_iter().map(move |place| (index, place))
                })
                .collect(),
            values: values.to_vec(),
        }
    }

    fn pick(&mut self, below: usize) -> usize {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.seed >> 33) as usize % below.max(1)
    }

    fn place(&mut self) -> (usize, String) {
        let place = self.pick(self.places.len());
        self.places[place].clone()
    }

    pub(crate) fn next(&mut self) -> Vec<u8> {
        let frame = self.pick(self.frames.len());
        let mut frame = self.frames[frame].clone();
        match self.pick(6) {
            // As it was, out of its order.
            0 => {}
            1 => {
                let end = self.pick(frame.len());
                frame.truncate(end);
            }
            2 => {
                for _ in 0..=self.pick(3) {
                    let at = self.pick(frame.len());
                    frame[at] = self.pick(256) as u8;
                }
            }
            // Behind itself, or behind another.
            3 => {
                let other = self.pick(self.frames.len());
                frame.extend_from_slice(&self.frames[other]);
            }
            _ => {
                let (index, place) = self.place();
                let mut value = self.values[index].clone();
                let other = match self.pick(9) {
                    0 => json!(null),
                    1 => json!(""),
                    2 => json!("x".repeat(10_000)),
                    3 => json!(-1.5),
                    4 => json!(u64::MAX),
                    5 => json!([null, {}, [], "x"]),
                    6 => json!({"id": 7}),
                    7 => json!(true),
                    // What stands elsewhere in the recordings.
                    _ => {
                        let (index, place) = self.place();
                        self.values[index].pointer(&place).unwrap().clone()
                    }
                };
                *value.pointer_mut(&place).unwrap() = other;
                frame = value.to_string().into_bytes();
            }
        }
        frame
    }
}
