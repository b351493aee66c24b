//! What must hold in every world, each rule in a function of its name. Looks at what goes in and out, never inside.

mod answers;
mod consent;
mod effects;
mod limits;
