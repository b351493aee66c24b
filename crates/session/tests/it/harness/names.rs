//! Effects as scripts call them: `effect-1`, `effect-2`, in the order in which they are first spoken of.

use windlass_contract::id::EffectId;

#[derive(Default)]
pub(crate) struct Names(Vec<EffectId>);

impl Names {
    /// The effect that a script calls by its number.
    pub(crate) fn effect(&self, number: &str) -> EffectId {
        let number: usize = number.parse().unwrap();
        self.0[number - 1].clone()
    }

    pub(crate) fn of(&mut self, effect_id: &EffectId) -> String {
        let known = self.0.iter().position(|known| known == effect_id);
        let place = known.unwrap_or_else(|| {
            self.0.push(effect_id.clone());
            self.0.len() - 1
        });
        format!("effect-{}", place + 1)
    }
}
