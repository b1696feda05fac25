//! Reads of the kernel's own memory.

use core::mem::MaybeUninit;

use aya_ebpf::helpers::generated::bpf_probe_read_kernel;

/// What any bytes are a value of.
pub(crate) trait Number: Copy {}

impl Number for u8 {}
impl Number for i32 {}
impl Number for u32 {}
impl Number for u64 {}
impl Number for [i32; 4] {}
impl<const N: usize> Number for [u64; N] {}
impl Number for [u8; 16] {}

/// Reads the kernel's memory; zeros where there is none.
#[inline(always)]
pub(crate) fn read<T: Number>(address: u64) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: `value` has room for what is read; the helper checks the address.
    unsafe {
        bpf_probe_read_kernel(
            value.as_mut_ptr().cast(),
            size_of::<T>() as u32,
            address as *const _,
        )
    };
    // SAFETY: the helper writes all of it, zeros where it cannot read, and any bytes are a number.
    unsafe { value.assume_init() }
}
