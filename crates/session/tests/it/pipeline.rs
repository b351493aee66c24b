//! The gates in their order, and what each answers.

use crate::harness::{check, check_with};
use windlass_tool::kind::Mode;

#[test]
fn one_call_runs_with_defaults_and_is_answered_once() {
    check(
        Mode::Text,
        r#"
        > text find Fram
        > calls function-call-1 search {"query":"fram"}
        > wait 20
        > returns 1 {"results":[{"id":"doc:fram","title":"Fram"}]}
        > says The Fram.
        > done
        "#,
    );
}
