//! What of an object a thread writes to.

use agent_common::{
    layout::{Layout, ObjectLayout},
    memory::UserAddr,
    python::written_part,
    record::MemoryType,
};

use super::image::{Image, LAYOUT};

/// A free-threaded interpreter.
const FREE_THREADED: Layout = Layout {
    object: ObjectLayout {
        class: 24,
        class_basic_size: 48,
        gc_head: 0,
        ..LAYOUT.object
    },
    ..LAYOUT
};

const TYPE_SUBCLASS: u64 = 1 << 31;
const HAVE_GC: u64 = 1 << 14;

/// Makes `type`, and a class of it with flags; returns the class.
fn class(image: &mut Image, layout: &Layout, flags: u64) -> u64 {
    let fields = &layout.object;
    let metaclass = image.map(512);
    image.put(metaclass, fields.class, metaclass);
    image.put(metaclass, fields.class_flags(), TYPE_SUBCLASS | HAVE_GC);
    let class = image.map(512);
    image.put(class, fields.class, metaclass);
    image.put(class, fields.class_flags(), flags);
    class
}

fn part(image: &Image, layout: &Layout, address: u64) -> MemoryType {
    written_part(image, layout, UserAddr(address))
}

#[test]
fn an_object_begins_with_its_reference_count() {
    let mut image = Image::new();
    for flags in [0, HAVE_GC] {
        let class = class(&mut image, &LAYOUT, flags);
        let object = image.map(64);
        image.put(object, LAYOUT.object.class, class);
        let counted = part(&image, &LAYOUT, object);
        assert_eq!(counted, MemoryType::REFERENCE_COUNT);
        for data in [object + 4, object + 8, object + 16, object + 40] {
            assert_eq!(part(&image, &LAYOUT, data), MemoryType::DATA, "{flags}");
        }
    }
}

#[test]
fn before_an_object_is_what_the_collector_keeps_if_it_collects_it() {
    let mut image = Image::new();
    for (flags, expected) in [(0, MemoryType::DATA), (HAVE_GC, MemoryType::GC_HEADER)] {
        let class = class(&mut image, &LAYOUT, flags);
        let object = image.map(96) + 48;
        image.put(object, LAYOUT.object.class, class);
        for before in [8, 16] {
            assert_eq!(part(&image, &LAYOUT, object - before), expected);
        }
        for before in [24, 32, 40] {
            let of_another = part(&image, &LAYOUT, object - before);
            assert_eq!(of_another, MemoryType::DATA);
        }
        let mut old = LAYOUT;
        old.object.gc_head = 32;
        assert_eq!(part(&image, &old, object - 32), expected);
        assert_eq!(part(&image, &old, object - 40), MemoryType::DATA);
    }
}

#[test]
fn without_the_gil_an_object_has_all_of_it() {
    let mut image = Image::new();
    let class = class(&mut image, &FREE_THREADED, HAVE_GC);
    let object = image.map(64);
    image.put(object, 24, class);
    for count in [0, 12, 16] {
        let counted = part(&image, &FREE_THREADED, object + count);
        assert_eq!(counted, MemoryType::REFERENCE_COUNT);
    }
    let bits = part(&image, &FREE_THREADED, object + 11);
    assert_eq!(bits, MemoryType::GC_HEADER);
    for data in [object - 8, object - 16, object + 24, object + 32] {
        assert_eq!(part(&image, &FREE_THREADED, data), MemoryType::DATA);
    }
}

#[test]
fn pointers_to_objects_are_no_objects() {
    let mut image = Image::new();
    let class = class(&mut image, &LAYOUT, 0);
    let object = image.map(32);
    image.put(object, LAYOUT.object.class, class);
    let items = image.map(64);
    for nth in 0..8 {
        image.put(items, 8 * nth, object);
    }
    for nth in 0..7 {
        let item = part(&image, &LAYOUT, items + 8 * nth);
        assert_eq!(item, MemoryType::DATA);
    }
    for nowhere in [0, 8, 0x10_0000, u64::MAX - 7] {
        assert_eq!(part(&image, &LAYOUT, nowhere), MemoryType::DATA);
        assert_eq!(part(&image, &FREE_THREADED, nowhere), MemoryType::DATA);
    }
}
