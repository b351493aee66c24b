//! Limits: budgets, modes, what is open at one time, and deadlines that make progress.

use crate::world::World;
use windlass_session::io::AdmittedCall;
use windlass_session::limits::Limits;
use windlass_tool::kind::Category;

/// Outputs of one input. A message has at most 40 calls here, and each causes a handful.
const OUTPUTS_MAX: usize = 2_000;

impl World {
    pub(crate) fn budgets_are_kept(&mut self, index: usize, call: &AdmittedCall) {
        let lane = &mut self.lanes[index];
        let limits = Limits::of(lane.mode).turn;
        let facts = lane.call(call.call().call);
        facts.started += 1;
        let reservation = facts.reservation.as_ref();
        let is_granted = reservation.is_some_and(|reservation| reservation.grant.is_some());
        if is_granted || call.call().attempt > 1 || call.tool().id.as_str() == "describe_tool" {
            return;
        }
        let (retrieval, all) = lane.watch.starts.entry(call.turn()).or_default();
        *retrieval += u32::from(call.tool().category == Category::Retrieval);
        *all += 1;
        if *retrieval > limits.retrieval_calls_max || *all > limits.calls_max {
            let what = format!("turn {} has {retrieval} of {all} calls", call.turn());
            self.broken("budgets_are_kept", what);
        }
    }

    pub(crate) fn no_tool_outside_its_mode(&mut self, index: usize, call: &AdmittedCall) {
        if !call.tool().allows(self.lanes[index].mode) {
            let what = format!("{} runs", call.tool().id);
            self.broken("no_tool_outside_its_mode", what);
        }
    }

    pub(crate) fn outputs_are_bounded(&mut self, outputs: usize) {
        if outputs > OUTPUTS_MAX {
            let what = format!("one input caused {outputs} outputs");
            self.broken("outputs_are_bounded", what);
        }
    }

    /// Queues and tables stay within their limits.
    pub(crate) fn tables_are_bounded(&mut self, index: usize) {
        let lane = &self.lanes[index];
        let limits = Limits::of(lane.mode);
        let open = lane
            .watch
            .calls
            .values()
            .filter(|call| call.started > 0 && call.ended == 0)
            .count();
        let questions = lane.watch.open_questions.len();
        let trail = lane
            .session
            .as_ref()
            .map_or(0, |session| session.trail().count());
        if open > limits.open_calls_max + 1
            || questions > limits.open_confirmations_max
            || trail > limits.trail_entries_max
        {
            let what = format!("{open} open calls, {questions} questions, a trail of {trail}");
            self.broken("tables_are_bounded", what);
        }
    }

    /// A deadline that stays due would keep the driver spinning.
    pub(crate) fn a_tick_makes_progress(&mut self, index: usize, due_us: u64) {
        if let Some(next_us) = self.deadline_us(index)
            && next_us <= due_us
            && next_us <= self.now_us
        {
            let what = format!("a deadline stays due at {next_us} µs");
            self.broken("a_tick_makes_progress", what);
        }
    }
}
