//! The name of the task that a thread runs.

use agent_common::{
    layout::RunningTaskLayout,
    memory::UserAddr,
    python::read_running_task,
    record::{MAX_TASK_NAME_BYTES, TaskName},
    scratch::Scratch,
};

use super::image::{Image, LAYOUT};

const TASKS: RunningTaskLayout = RunningTaskLayout {
    running: 872,
    name: 136,
    coroutine: 128,
    reserved: 0,
};

/// `tp_flags`, and that of texts in it.
const FLAGS: u16 = 168;
const IS_TEXT: u64 = 1 << 28;

/// `cr_qualname`.
const QUALIFIED_NAME: u16 = 32;

/// A thread that runs a task.
struct Running {
    image: Image,
    state: u64,
    task: u64,
}

impl Running {
    fn new() -> Self {
        let mut image = Image::new();
        let (state, task) = (image.map(1024), image.map(168));
        image.put(state, TASKS.running, task);
        Self { image, state, task }
    }

    /// An object of a class with these flags.
    fn with_class(&mut self, object: u64, class: &str, flags: u64) -> u64 {
        let of = self.image.map(416);
        let name = self.image.map(64);
        self.image.write(name, class.as_bytes());
        self.image.put(of, LAYOUT.exception.class_name, name);
        self.image.put(of, FLAGS, flags);
        self.image.put(object, LAYOUT.object.class, of);
        object
    }

    fn text(&mut self, text: &str) -> u64 {
        let object = self.image.text(text);
        self.with_class(object, "str", IS_TEXT)
    }

    fn set_name(&mut self, name: u64) {
        self.image.put(self.task, TASKS.name, name);
    }

    fn set_coroutine(&mut self, class: &str, name: &str) {
        let coroutine = self.image.map(64);
        let coroutine = self.with_class(coroutine, class, 0);
        let name = self.text(name);
        self.image.put(coroutine, QUALIFIED_NAME, name);
        self.image.put(self.task, TASKS.coroutine, coroutine);
    }

    /// The hash and the characters.
    fn read(&self) -> Option<(u64, String)> {
        let mut name = TaskName::NONE;
        let state = UserAddr(self.state);
        let mut scratch = Scratch::new();
        let hash = read_running_task(
            &self.image,
            &mut scratch,
            &LAYOUT,
            TASKS,
            state,
            7,
            &mut name,
        );
        assert_eq!(hash, name.task);
        let characters: Vec<u8> = name.name.iter().flat_map(|it| it.to_ne_bytes()).collect();
        let text = String::from_utf8_lossy(&characters[..name.text.bytes.into()]);
        (hash != 0).then(|| (hash, text.into_owned()))
    }

    fn name(&self) -> Option<String> {
        self.read().map(|(_, name)| name)
    }
}

#[test]
fn a_task_has_its_own_name_or_that_of_its_coroutine() {
    let mut running = Running::new();
    assert_eq!(running.name(), None);
    running.set_coroutine("coroutine", "Service.answer");
    assert_eq!(running.name().as_deref(), Some("Service.answer"));
    let number = running.image.map(32);
    let number = running.with_class(number, "int", 1 << 24);
    running.set_name(number);
    assert_eq!(running.name().as_deref(), Some("Service.answer"));
    let made_of_number = running.text("Task-12");
    running.set_name(made_of_number);
    assert_eq!(running.name().as_deref(), Some("Service.answer"));
    let own = running.text("checkout");
    running.set_name(own);
    assert_eq!(running.name().as_deref(), Some("checkout"));
    // No task is run any more.
    running.image.put(running.state, TASKS.running, 0);
    assert_eq!(running.name(), None);
}

#[test]
fn equal_names_have_equal_hashes_and_long_ones_are_cut() {
    let mut running = Running::new();
    let mut hash = |name: &str| {
        let name = running.text(name);
        running.set_name(name);
        running.read().unwrap()
    };
    let (first, _) = hash("checkout");
    assert_eq!(hash("checkout").0, first);
    assert_ne!(hash("checkouu").0, first);
    let long = "a".repeat(100);
    let (cut, name) = hash(&long);
    assert_eq!(name, long[..MAX_TASK_NAME_BYTES.into()]);
    // Nothing is left of a longer name.
    assert_eq!(hash("checkout").0, first);
    // A name is not the same as the start of another one.
    assert_ne!(hash(&long[..MAX_TASK_NAME_BYTES.into()]).0, cut);
}

#[test]
fn what_is_no_task_has_no_name() {
    let mut running = Running::new();
    running.set_coroutine("generator", "answer");
    assert_eq!(running.name(), None);
    running.set_coroutine("coroutine_wrapper", "answer");
    assert_eq!(running.name(), None);
    let empty = running.text("");
    running.set_name(empty);
    assert_eq!(running.name(), None);
    for pointer in [1, 8, 0x7fff_ffff_fff8, u64::MAX] {
        running.set_name(pointer);
        assert_eq!(running.name(), None);
        running.image.put(running.task, TASKS.coroutine, pointer);
        assert_eq!(running.name(), None);
        running.image.put(running.state, TASKS.running, pointer);
        assert_eq!(running.name(), None);
        running
            .image
            .put(running.state, TASKS.running, running.task);
    }
}
