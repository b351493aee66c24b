//! Spare byte buffers of one thread, so that a socket holds memory only while bytes pass through it. Knows nothing of the bytes'
//! meaning.

use std::cell::RefCell;

/// Enough for every frame of live audio; larger buffers are freed instead of kept.
const CAPACITY: usize = 16 * 1024;
/// A session works with at most three buffers at a time, and sessions of one thread take turns.
const SPARE_MAX: usize = 16;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer with room for an ordinary frame.
pub(crate) fn take() -> Vec<u8> {
    SPARE
        .with_borrow_mut(Vec::pop)
        .unwrap_or_else(|| Vec::with_capacity(CAPACITY))
}

/// Returns a buffer. A buffer without memory, or with too much of it, is dropped.
pub(crate) fn give(mut buffer: Vec<u8>) {
    let ordinary = (CAPACITY..=2 * CAPACITY).contains(&buffer.capacity());
    if !ordinary {
        return;
    }
    buffer.clear();
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < SPARE_MAX {
            spare.push(buffer);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_returned_buffer_comes_back_empty_and_an_oversized_one_does_not() {
        let mut buffer = take();
        buffer.extend_from_slice(b"audio");
        let place = buffer.as_ptr();
        give(buffer);
        let again = take();
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
        give(Vec::with_capacity(1 << 20));
        assert!(take().capacity() < 1 << 20);
    }
}
