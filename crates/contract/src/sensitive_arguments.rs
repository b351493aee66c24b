//! Arguments without the ones that a tool's manifest marks as sensitive. Knows no log and no client.

use crate::arguments::Arguments;
use serde_json::{Map, Value};

impl Arguments {
    /// Separates the arguments at these JSON pointers: the remaining arguments, and the removed values. `*` stands for every key or item.
    pub fn parted(&self, pointers: &[String]) -> (Map<String, Value>, Vec<Value>) {
        let (mut visible, mut taken) = (self.to_map(), Vec::new());
        for pointer in pointers {
            let tokens: Vec<String> = pointer
                .split('/')
                .skip(1)
                .map(|token| token.replace("~1", "/").replace("~0", "~"))
                .collect();
            remove_from_map(&mut visible, &tokens, &mut taken);
        }
        (visible, taken)
    }
}

fn remove_from_map(map: &mut Map<String, Value>, tokens: &[String], taken: &mut Vec<Value>) {
    let Some((first, rest)) = tokens.split_first() else {
        // The empty pointer names all arguments.
        return taken.extend(std::mem::take(map).into_iter().map(|(_, value)| value));
    };
    match (first.as_str(), rest) {
        ("*", []) => taken.extend(std::mem::take(map).into_iter().map(|(_, value)| value)),
        ("*", _) => map
            .values_mut()
            .for_each(|value| remove_from_value(value, rest, taken)),
        (name, []) => taken.extend(map.remove(name)),
        (name, _) => {
            if let Some(value) = map.get_mut(name) {
                remove_from_value(value, rest, taken);
            }
        }
    }
}

fn remove_from_value(value: &mut Value, tokens: &[String], taken: &mut Vec<Value>) {
    let items = match value {
        Value::Object(map) => return remove_from_map(map, tokens, taken),
        Value::Array(items) => items,
        _ => return,
    };
    let Some((first, rest)) = tokens.split_first() else {
        return;
    };
    let named: Box<dyn Iterator<Item = &mut Value>> = if first == "*" {
        Box::new(items.iter_mut())
    } else {
        let index = first.parse::<usize>().ok();
        Box::new(index.and_then(|index| items.get_mut(index)).into_iter())
    };
    for item in named {
        if rest.is_empty() {
            // Removing the item would move its neighbours.
            taken.push(item.take());
        } else {
            remove_from_value(item, rest, taken);
        }
    }
}
