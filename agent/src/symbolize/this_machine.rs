//! Work for another thread on the machine of this one.

#[cfg(feature = "testing")]
use crate::process::machine::{enter_machine, present_machine};

/// Work for another thread, which in golden tests reads the files of the same recorded machine.
pub(super) fn on_this_machine<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    #[cfg(feature = "testing")]
    let machine = present_machine();
    move || {
        #[cfg(feature = "testing")]
        if let Some(machine) = &machine {
            enter_machine(machine);
        }
        work()
    }
}
