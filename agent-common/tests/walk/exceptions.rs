//! Which exception a thread is raising.

use agent_common::{
    layout::{ABSENT, ExceptionLayout, Layout},
    memory::UserAddr,
    python::raised_class,
};

use super::image::{Image, LAYOUT};

/// An interpreter that keeps the class and the traceback of the exception in the thread state.
const IN_PARTS: Layout = Layout {
    exception: ExceptionLayout {
        current: ABSENT,
        traceback: ABSENT,
        thread_class: 88,
        thread_traceback: 104,
        class_name: 24,
    },
    ..LAYOUT
};

const CLASS: u64 = 0x5555_0000_1000;
const TRACEBACK: u64 = 0x7f00_0000_2000;

fn raised(image: &Image, layout: &Layout, state: u64) -> u64 {
    raised_class(image, layout, UserAddr(state)).0
}

#[test]
fn an_exception_without_a_traceback_is_being_raised() {
    let mut image = Image::new();
    let state = image.map(256);
    let fields = LAYOUT.exception;
    // None is set.
    assert_eq!(raised(&image, &LAYOUT, state), 0);
    let exception = image.map(128);
    image.put(state, fields.current, exception);
    image.put(exception, LAYOUT.object.class, CLASS);
    assert_eq!(raised(&image, &LAYOUT, state), CLASS);
    // It has left a frame before.
    image.put(exception, fields.traceback, TRACEBACK);
    assert_eq!(raised(&image, &LAYOUT, state), 0);
}

#[test]
fn so_is_one_whose_parts_are_in_the_thread_state() {
    let mut image = Image::new();
    let state = image.map(256);
    assert_eq!(raised(&image, &IN_PARTS, state), 0);
    image.put(state, 88, CLASS);
    assert_eq!(raised(&image, &IN_PARTS, state), CLASS);
    image.put(state, 104, TRACEBACK);
    assert_eq!(raised(&image, &IN_PARTS, state), 0);
}

#[test]
fn what_cannot_be_read_is_no_exception() {
    let mut image = Image::new();
    let state = image.map(256);
    image.put(state, LAYOUT.exception.current, 0x10);
    assert_eq!(raised(&image, &LAYOUT, state), 0);
    assert_eq!(raised(&image, &LAYOUT, 0), 0);
    assert_eq!(raised(&image, &LAYOUT, 0x10), 0);
}
