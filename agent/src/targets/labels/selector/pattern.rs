//! Names with wildcards.

/// Least digits of a container id, as many as Docker shows.
const MIN_ID_DIGITS: usize = 12;

/// A name in which `*` matches any text and `?` any character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::targets) struct Pattern(Vec<char>);

impl Pattern {
    pub(in crate::targets) fn new(text: &str) -> Self {
        Self(text.chars().collect())
    }

    /// Whether all of `name` matches.
    pub(in crate::targets) fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut at, mut name_at) = (0, 0);
        // The last `*`, and how much of the name it matches so far. Nothing before it needs to be
        // tried again, so time is at most proportional to the product of both lengths.
        let mut star: Option<(usize, usize)> = None;
        while name_at < name.len() {
            match self.0.get(at) {
                Some('*') => {
                    star = Some((at, name_at));
                    at += 1;
                }
                Some(&letter) if letter == '?' || letter == name[name_at] => {
                    at += 1;
                    name_at += 1;
                }
                _ => {
                    let Some((star_at, stood_for)) = star else {
                        return false;
                    };
                    star = Some((star_at, stood_for + 1));
                    at = star_at + 1;
                    name_at = stood_for + 1;
                }
            }
        }
        self.0[at..].iter().all(|&letter| letter == '*')
    }

    /// Whether it is a container id, or a prefix of one that is long enough.
    pub(super) fn is_start_of_id(&self, id: &str) -> bool {
        let is_id = self.0.len() >= MIN_ID_DIGITS && self.0.iter().all(char::is_ascii_hexdigit);
        is_id && id.chars().zip(&self.0).filter(|(a, b)| a == *b).count() == self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use regex::Regex;

    fn matches(pattern: &str, name: &str) -> bool {
        Pattern::new(pattern).matches(name)
    }

    #[test]
    fn the_whole_name_must_fit() {
        assert!(matches("python*", "python3.12"));
        assert!(matches("*.service", "nginx.service"));
        assert!(matches("a*b?c*", "axxbxbyc"));
        assert!(matches("*", ""));
        assert!(matches("", ""));
        assert!(!matches("", "a"));
        assert!(!matches("?", ""));
        assert!(!matches("python", "python3"));
        assert!(!matches("*a", "ab"));
        assert!(matches("?", "é"));
    }

    #[test]
    fn an_id_may_be_shortened() {
        let id = "1cbbbc3e0ecd42a94a9a";
        assert!(Pattern::new("1cbbbc3e0ecd").is_start_of_id(id));
        assert!(Pattern::new(id).is_start_of_id(id));
        assert!(!Pattern::new("1cbbbc3e0ec").is_start_of_id(id));
        assert!(!Pattern::new("2cbbbc3e0ecd").is_start_of_id(id));
        assert!(!Pattern::new("1cbbbc3e0ecd42a94a9aff").is_start_of_id(id));
    }

    #[test]
    fn many_wildcards_take_no_time() {
        let pattern = "*a".repeat(1000) + "b";
        assert!(!matches(&pattern, &"a".repeat(3000)));
    }

    proptest! {
        #[test]
        fn it_is_a_simple_expression(pattern in r"[ab*?]{0,8}", name in "[ab]{0,8}") {
            let expression = format!("^{}$", pattern.replace('*', ".*").replace('?', "."));
            let expected = Regex::new(&expression).unwrap().is_match(&name);
            prop_assert_eq!(matches(&pattern, &name), expected);
        }

        #[test]
        fn no_name_makes_it_panic(pattern in any::<String>(), name in any::<String>()) {
            let _ = matches(&pattern, &name);
            prop_assert!(matches("*", &name));
        }
    }
}
