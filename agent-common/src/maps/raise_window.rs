//! When exceptions are recorded.

/// What stands for a weight of 1; a power of two.
pub const WEIGHT_UNIT: u64 = 1 << 8;

/// A window of time in which exceptions are recorded.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RaiseWindow {
    /// Its first moment, in nanoseconds of the monotonic clock.
    pub start_ns: u64,
    /// The moment after it.
    pub end_ns: u64,
    /// For how many exceptions one in it stands, in [parts](WEIGHT_UNIT): for itself and those of the time around it,
    /// in which none was recorded.
    pub weight: u64,
}

/// The windows that are known by now: the only value of the map `RAISE_WINDOWS`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RaiseWindows {
    /// The present or next window, and the one after it.
    pub windows: [RaiseWindow; 2],
    /// How often the probe has been detached so far.
    pub detached: u64,
}

impl RaiseWindows {
    /// The weight of an exception at this moment, 0 where none is recorded.
    #[inline(always)]
    #[must_use]
    pub fn weight(&self, now_ns: u64) -> u64 {
        let [first, second] = &self.windows;
        for window in [first, second] {
            if now_ns >= window.start_ns && now_ns < window.end_ns {
                return window.weight;
            }
        }
        0
    }
}

#[cfg(feature = "user")]
// SAFETY: integers without padding, valid for any bytes.
unsafe impl aya::Pod for RaiseWindows {}
