//! Kernel frames of an interrupt that took the processor of a thread.
//!
//! A thread that is read while it waits for a processor, or whose processor the reader has taken, has them on top of
//! its stack, where a thread that waits has those of its system call. They say nothing about the program:
//!
//! ```text
//! exit_to_user_mode_loop              left out
//! irqentry_exit_to_user_mode          left out
//! asm_sysvec_apic_timer_interrupt     left out
//! compute                             the function that was interrupted
//! ```

/// Beginnings of the names of the functions by which an interrupt enters the kernel, of x86-64 and of 64-bit Arm, since
/// Linux 5.10. The handlers that some of them call on Arm have a longer name, which ends with `_handler`.
const ENTRIES: &[&str] = &[
    "asm_common_interrupt",
    "asm_sysvec_",
    "el0_irq",
    "el0t_32_fiq",
    "el0t_32_irq",
    "el0t_64_fiq",
    "el0t_64_irq",
    "el1_irq",
    "el1h_64_irq",
    "work_pending",
];

/// Beginnings of the names of those that are between them and the scheduler, which is not in the stack.
const EXITS: &[&str] = &[
    "__el0_fiq_handler_common",
    "__el0_irq_handler_common",
    "arm64_preempt_schedule",
    "common_interrupt",
    "do_notify_resume",
    "el0_interrupt",
    "el1_interrupt",
    "irqentry_exit",
    "preempt_schedule",
    "raw_irqentry_exit_cond_resched",
    "sysvec_",
];

/// The same for parts of their names, as in `prepare_exit_to_user_mode` and `exit_to_user_mode_loop`.
const EXIT: &str = "exit_to_user_mode";

/// The functions at the leaf of a stack with which the kernel took the processor of the thread.
#[derive(Debug, Default)]
pub(super) struct Preemption {
    is_over: bool,
}

impl Preemption {
    /// Whether the next function of the stack, leaf first, is one of them.
    pub(super) fn covers(&mut self, name: &str) -> bool {
        if self.is_over {
            return false;
        }
        let is_entry = is_entry(name);
        let is_covered = is_entry || is_exit(name);
        self.is_over = is_entry || !is_covered;
        is_covered
    }
}

fn is_entry(name: &str) -> bool {
    ENTRIES.iter().any(|known| name.starts_with(known)) && !name.ends_with("_handler")
}

fn is_exit(name: &str) -> bool {
    let mut known = EXITS.iter().chain(ENTRIES);
    name.contains(EXIT) || known.any(|known| name.starts_with(known))
}

#[cfg(test)]
mod tests {
    use super::Preemption;

    fn left(stack: &str) -> Vec<&str> {
        let mut preemption = Preemption::default();
        let names = stack.split(' ');
        names.filter(|name| !preemption.covers(name)).collect()
    }

    #[test]
    fn a_thread_that_was_interrupted_is_in_its_own_function() {
        let timer = "asm_sysvec_apic_timer_interrupt";
        for interrupt in [
            format!("irqentry_exit_to_user_mode {timer}"),
            format!("exit_to_user_mode_loop irqentry_exit_to_user_mode {timer}"),
            // Linux 5.10 and 6.1.
            format!(
                "exit_to_user_mode_prepare irqentry_exit_to_user_mode irqentry_exit \
                 sysvec_apic_timer_interrupt {timer}"
            ),
            "irqentry_exit_to_user_mode asm_common_interrupt".to_owned(),
            "do_notify_resume el0_interrupt __el0_irq_handler_common el0t_64_irq_handler el0t_64_irq"
                .to_owned(),
            "do_notify_resume work_pending".to_owned(),
        ] {
            assert_eq!(
                left(&format!("{interrupt} compute main")),
                ["compute", "main"]
            );
        }
    }

    #[test]
    fn one_that_was_interrupted_in_the_kernel_is_where_it_was_there() {
        let call = "copy_page vfs_read do_syscall_64";
        for preemption in [
            "raw_irqentry_exit_cond_resched irqentry_exit asm_sysvec_reschedule_ipi",
            "preempt_schedule_irq irqentry_exit sysvec_reschedule_ipi asm_sysvec_reschedule_ipi",
            "preempt_schedule_common preempt_schedule_thunk",
            "arm64_preempt_schedule_irq el1_interrupt el1h_64_irq_handler el1h_64_irq",
        ] {
            assert_eq!(
                left(&format!("{preemption} {call}")),
                call.split(' ').collect::<Vec<_>>()
            );
        }
        assert_eq!(
            left("exit_to_user_mode_loop do_syscall_64"),
            ["do_syscall_64"]
        );
    }

    #[test]
    fn one_that_waits_has_all_of_its_functions() {
        for stack in [
            "futex_wait do_futex do_syscall_64",
            "asm_exc_page_fault store",
        ] {
            assert_eq!(left(stack), stack.split(' ').collect::<Vec<_>>());
        }
        // An interrupt of the code that runs in another one is not that of the program.
        let nested = "asm_sysvec_irq_work handle_softirqs asm_sysvec_apic_timer_interrupt compute";
        assert_eq!(left(nested).len(), 3);
    }
}
