//! The whole command line, from the beginning of the stack of the first thread.
//!
//! ```text
//! lower addresses   argc, argv…, 0, envp…, 0, auxv…, texts, path of the executable   end of the stack
//! ```
//!
//! The notes have `auxv` too, and in it the address of that path, so that the pointers are found from above.
//!
//! Invariant: what is read is bounded; what is not as it should be has no command line.

use memchr::memmem;

use crate::process::CommandLine;

/// Bytes of the beginning of `auxv` by which it is found.
const KEY_BYTES: usize = 32;

/// Most bytes below the path of the executable that are searched: as many as arguments and environment may have by
/// default, and their pointers.
const MAX_SEARCHED: usize = 4 << 20;

/// Bytes that are read at once.
const PAGE: u64 = 4096;

/// Most arguments, and most bytes of them.
const MAX_ARGUMENTS: usize = 256;
const MAX_BYTES: usize = 64 << 10;

/// The command line; `path` is the address of the path of the executable, `auxv` the contents of the note, `read` fills
/// bytes from an address and returns whether it could.
pub(super) fn find(
    path: u64,
    auxv: &[u8],
    read: impl Fn(u64, &mut [u8]) -> bool,
) -> Option<CommandLine> {
    let key = auxv.get(..KEY_BYTES)?;
    let stack = below(path, &read);
    let at = memmem::rfind(&stack, key)?;
    let (_, words) = stack.get(..at)?.as_rchunks::<8>();
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    // The end of `envp`, then its pointers up to the end of `argv`.
    let (last, words) = words.split_last().filter(|(last, _)| **last == 0)?;
    let end = words.iter().rposition(|word| word == last)?;
    let words = words.get(..end)?;
    // As many pointers as the number before them says.
    let most = words.len().min(1 << 20);
    let count = (0..most).find(|count| {
        let before = words.len().checked_sub(count + 1);
        let word = before.and_then(|before| words.get(before));
        word == Some(&(*count as u64))
    })?;
    let pointers = words.get(words.len() - count..)?;
    let mut text = Vec::new();
    for pointer in pointers.iter().take(MAX_ARGUMENTS) {
        add_text(&mut text, *pointer, &read)?;
        if text.len() >= MAX_BYTES {
            break;
        }
    }
    (!text.is_empty()).then(|| CommandLine::new(text))
}

/// The memory below an address, as far as it is there.
fn below(address: u64, read: &impl Fn(u64, &mut [u8]) -> bool) -> Vec<u8> {
    let mut pages = Vec::new();
    let mut start = address & !(PAGE - 1);
    while pages.len() * 4096 < MAX_SEARCHED {
        let mut page = vec![0; 4096];
        if !read(start, &mut page) {
            break;
        }
        pages.push(page);
        match start.checked_sub(PAGE) {
            Some(lower) => start = lower,
            None => break,
        }
    }
    pages.reverse();
    pages.concat()
}

/// Adds the text at an address with its end.
fn add_text(
    text: &mut Vec<u8>,
    mut address: u64,
    read: &impl Fn(u64, &mut [u8]) -> bool,
) -> Option<()> {
    while text.len() < MAX_BYTES {
        let mut piece = [0; 64];
        // Up to the next multiple, so that it is in the same page.
        let bytes = 64 - usize::try_from(address % 64).ok()?;
        let piece = &mut piece[..bytes];
        if !read(address, piece) {
            return None;
        }
        if let Some(end) = piece.iter().position(|&byte| byte == 0) {
            text.extend_from_slice(&piece[..=end]);
            return Some(());
        }
        text.extend_from_slice(piece);
        address = address.checked_add(bytes as u64)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 0x7ffc_0000_0000;

    /// A stack with these arguments and this environment, and the address of the path.
    fn stack(arguments: &[&str], environment: &[&str], auxv: &[u8]) -> (Vec<u8>, u64) {
        let words = arguments.len() + environment.len() + 3;
        let mut texts_at = START + 0x100 + words as u64 * 8 + auxv.len() as u64;
        let mut texts = Vec::new();
        let mut pointers = |all: &[&str]| {
            let mut pointers = Vec::new();
            for text in all {
                pointers.push(texts_at);
                texts.extend(text.as_bytes());
                texts.push(0);
                texts_at += text.len() as u64 + 1;
            }
            pointers
        };
        let (argv, envp) = (pointers(arguments), pointers(environment));
        let mut stack = vec![7; 0x100];
        let count = [arguments.len() as u64];
        for word in count
            .iter()
            .chain(&argv)
            .chain(&[0])
            .chain(&envp)
            .chain(&[0])
        {
            stack.extend(word.to_le_bytes());
        }
        stack.extend(auxv);
        stack.extend(texts);
        let path = START + stack.len() as u64;
        stack.extend(b"/usr/bin/python3\0");
        stack.resize(stack.len().next_multiple_of(4096), 0);
        (stack, path)
    }

    fn found(stack: &[u8], path: u64, auxv: &[u8]) -> Option<String> {
        let read = |address: u64, into: &mut [u8]| {
            let Some(at) = address
                .checked_sub(START)
                .and_then(|at| usize::try_from(at).ok())
            else {
                return false;
            };
            let from = at
                .checked_add(into.len())
                .and_then(|end| stack.get(at..end));
            from.is_some_and(|from| {
                into.copy_from_slice(from);
                true
            })
        };
        find(path, auxv, read).map(|line| line.to_text())
    }

    #[test]
    fn arguments_are_found_below_the_path() {
        let auxv: Vec<u8> = (1..=96).collect();
        let long = "x".repeat(5000);
        for (arguments, environment) in [
            (vec!["python3", "app.py", &*long], vec!["A=1", "B=2"]),
            (vec!["python3"], vec![]),
            (vec!["python3", "", "-"], vec![&*long]),
        ] {
            let (stack, path) = stack(&arguments, &environment, &auxv);
            assert_eq!(found(&stack, path, &auxv), Some(arguments.join(" ")));
        }
    }

    #[test]
    fn no_stack_makes_it_panic() {
        let auxv: Vec<u8> = (1..=96).collect();
        let (stack, path) = stack(&["python3", "app.py"], &["A=1"], &auxv);
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..3000 {
            let mut damaged = stack.clone();
            for _ in 0..random.usize(1..16) {
                let at = random.usize(0x100..0x200);
                damaged[at] = random.u8(..);
            }
            let _ = found(&damaged, path, &auxv);
        }
        for path in [0, 7, u64::MAX, START, START + 1] {
            let _ = found(&stack, path, &auxv);
        }
        assert_eq!(found(&stack, path, &[]), None);
    }
}
