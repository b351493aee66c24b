//! How a parameter or a member of a form is written into a request, as a description's styles have it.
//! Source: <https://spec.openapis.org/oas/v3.1.0#style-values>.

use serde_json::{Map, Value, json};

/// The values that a schema allows besides texts, numbers and truth values.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shape {
    pub(super) list: bool,
    pub(super) object: bool,
    /// Lists or objects inside a list or an object.
    pub(super) nested: bool,
}

impl Shape {
    pub(super) fn of(schema: &Value) -> Self {
        Self::at(schema, 0)
    }

    fn at(schema: &Value, depth: usize) -> Self {
        const DEPTH_MAX: usize = 8;
        let mut shape = Self::default();
        let Some(object) = schema.as_object().filter(|_| depth < DEPTH_MAX) else {
            return shape;
        };
        let is = |name: &str| match object.get("type") {
            Some(Value::String(kind)) => kind == name,
            Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == name),
            _ => false,
        };
        shape.list = is("array") || object.contains_key("items");
        shape.object = is("object") || object.contains_key("properties");
        let members = object.get("properties").and_then(Value::as_object);
        let inner = ["items", "additionalProperties"]
            .into_iter()
            .filter_map(|name| object.get(name))
            .chain(members.into_iter().flat_map(Map::values));
        for inner in inner {
            let inner = Self::at(inner, depth + 1);
            shape.nested |= inner.list || inner.object;
        }
        for name in ["allOf", "anyOf", "oneOf"] {
            let parts = object.get(name).and_then(Value::as_array);
            for part in parts.into_iter().flatten() {
                let part = Self::at(part, depth + 1);
                shape.list |= part.list;
                shape.object |= part.object;
                shape.nested |= part.nested;
            }
        }
        shape
    }

    fn is_plain(self) -> bool {
        !self.list && !self.object
    }
}

/// The style that an object of a description names: a parameter, or a part of `encoding`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style<'d> {
    name: &'d str,
    explodes: bool,
    keeps_reserved: bool,
}

impl<'d> Style<'d> {
    pub(super) fn of(declared: &'d Value, usual: &'d str) -> Self {
        let name = declared.get("style").and_then(Value::as_str);
        let name = name.unwrap_or(usual);
        let flag = |name: &str| declared.get(name).and_then(Value::as_bool);
        Self {
            name,
            explodes: flag("explode").unwrap_or(name == "form"),
            keeps_reserved: flag("allowReserved").unwrap_or_default(),
        }
    }

    /// The value of a query or a form, as a `handler.json` has it.
    pub(super) fn value(self, argument: &str, schema: &Value) -> Result<Value, String> {
        let shape = Shape::of(schema);
        let place = format!("{{{argument}}}");
        let mut styled = json!({ "value": place });
        if self.keeps_reserved {
            styled["allowReserved"] = true.into();
        }
        match (self.name, self.explodes) {
            ("form" | "spaceDelimited" | "pipeDelimited", _) if shape.nested => {
                return Err(format!(
                    "has lists or objects inside one another, for which the style {} has no form",
                    self.name
                ));
            }
            ("form" | "spaceDelimited" | "pipeDelimited", _) if shape.is_plain() => {}
            ("form", true) | ("spaceDelimited" | "pipeDelimited", true) => {
                if shape.object {
                    styled["style"] = "form".into();
                }
            }
            ("form", false) => styled["explode"] = false.into(),
            ("spaceDelimited" | "pipeDelimited", false) => styled["style"] = self.name.into(),
            ("deepObject", _) => styled["style"] = "deepObject".into(),
            (other, _) => {
                return Err(format!(
                    "has the style {}, which no query has",
                    crate::words::brief(other)
                ));
            }
        }
        let is_usual = styled.as_object().is_some_and(|styled| styled.len() == 1);
        Ok(match is_usual {
            true => place.into(),
            false => styled,
        })
    }

    /// Whether a header can hold the values of a schema.
    pub(super) fn header(self, schema: &Value) -> Result<Value, String> {
        let shape = Shape::of(schema);
        match shape.nested || shape.object {
            true => Err("is an object, which no header can hold".to_owned()),
            false => Ok(Value::Null),
        }
    }

    /// The text in the path in place of `{name}`.
    pub(super) fn segment(
        self,
        name: &str,
        argument: &str,
        schema: &Value,
    ) -> Result<String, String> {
        let shape = Shape::of(schema);
        if shape.nested {
            return Err(
                "has lists or objects inside one another, for which no path has a form".to_owned(),
            );
        }
        let explodes = match self.explodes && !shape.is_plain() {
            true => "*",
            false => "",
        };
        match self.name {
            "simple" => Ok(format!("{{{argument}{explodes}}}")),
            "label" => Ok(format!("{{.{argument}{explodes}}}")),
            "matrix" if argument.is_empty() || name == argument => {
                Ok(format!("{{;{argument}{explodes}}}"))
            }
            "matrix" if explodes.is_empty() => Ok(format!(";{name}={{{argument}}}")),
            "matrix" => Err(format!(
                "has the style matrix and a name, {}, that no argument can have",
                crate::words::brief(name)
            )),
            other => Err(format!(
                "has the style {}, which no path has",
                crate::words::brief(other)
            )),
        }
    }
}

/// A value that is written as the text of its JSON.
pub(super) fn as_json(argument: &str) -> Value {
    json!({ "value": format!("{{{argument}}}"), "style": "json" })
}
