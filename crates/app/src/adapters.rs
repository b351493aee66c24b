//! The small files that give a handler of kind `process` the interface of handlers, for Node and for Python. Knows neither
//! language.

/// Beside a `handler.mjs`, run as `node windlass.mjs`.
pub const NODE: &str = include_str!("adapters/windlass.mjs");
/// Beside a `handler.py`, run as `python3 windlass.py`.
pub const PYTHON: &str = include_str!("adapters/windlass.py");
