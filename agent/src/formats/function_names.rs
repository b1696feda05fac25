//! Names of functions as they are shown: with their module or without.
//!
//! Collectors that merge stacks by the names of functions merge `main` of one file with `main` of
//! another and, before Python 3.11, which has qualified names, `run` of one class with `run` of
//! another. Methods of classes in one module still have equal names there.

use std::borrow::Cow;

use super::python_module::module;
use crate::profile::{FrameKind, Function, FunctionId, Profile};

/// How Python functions are named. All others have the names that they have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum FunctionNames {
    /// As the interpreter names them: `Worker.run`.
    #[default]
    Plain,
    /// With their module: `shop.orders.Worker.run`.
    Module,
}

impl FunctionNames {
    /// Every way.
    pub const ALL: [Self; 2] = [Self::Plain, Self::Module];

    /// Name in options and configurations.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Module => "module",
        }
    }

    /// The way of this [name](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|names| names.name() == name)
    }

    /// The names of all functions of a profile.
    #[must_use]
    pub fn of(self, profile: &Profile) -> ShownNames<'_> {
        let functions = profile.functions.iter();
        ShownNames(functions.map(|function| self.shown(function)).collect())
    }

    /// The same profile, whose functions have these names.
    #[must_use]
    pub fn in_profile(self, profile: Cow<'_, Profile>) -> Cow<'_, Profile> {
        if self == Self::Plain {
            return profile;
        }
        let mut profile = profile.into_owned();
        for function in &mut profile.functions {
            function.name = self.shown(function).into_owned();
        }
        Cow::Owned(profile)
    }

    fn shown(self, function: &Function) -> Cow<'_, str> {
        let module = match (self, function.kind) {
            (Self::Module, FrameKind::Python) => module(&function.file),
            _ => None,
        };
        match module {
            Some(module) => format!("{module}.{}", function.name).into(),
            None => Cow::Borrowed(&function.name),
        }
    }
}

/// The names of the functions of a profile.
pub struct ShownNames<'a>(Vec<Cow<'a, str>>);

impl ShownNames<'_> {
    /// The name of a function.
    ///
    /// # Panics
    ///
    /// When `id` is not an index of the profile.
    #[must_use]
    pub fn get(&self, id: FunctionId) -> &str {
        &self.0[id.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::fixtures::example_profile;

    #[test]
    fn ways_are_found_by_name() {
        for names in FunctionNames::ALL {
            assert_eq!(FunctionNames::from_name(names.name()), Some(names));
        }
        assert_eq!(FunctionNames::from_name("qualified"), None);
    }

    #[test]
    fn only_python_functions_have_a_module() {
        let shown = |kind, file: &str| {
            let function = Function {
                name: "run".to_owned(),
                file: file.to_owned(),
                first_line: None,
                kind,
            };
            FunctionNames::ALL.map(|names| names.shown(&function).into_owned())
        };
        let file = "/srv/app/shop/orders.py";
        assert_eq!(shown(FrameKind::Python, file), ["run", "shop.orders.run"]);
        assert_eq!(shown(FrameKind::Python, "<string>"), ["run", "run"]);
        for kind in [FrameKind::Native, FrameKind::Kernel, FrameKind::Marker] {
            assert_eq!(shown(kind, file), ["run", "run"]);
        }
    }

    #[test]
    fn functions_of_a_profile_have_the_names() {
        let profile = example_profile("/srv/app/main.py");
        for names in FunctionNames::ALL {
            let named = names.in_profile(Cow::Borrowed(&profile));
            let functions = named.functions.iter().zip(&profile.functions);
            for (function, original) in functions {
                assert_eq!(function.name, names.shown(original));
            }
        }
    }
}
