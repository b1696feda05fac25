//! The module of Python code, from the file that its code object names.
//!
//! What modules are called is known only in the process: `__name__` is in the globals of a frame, and the
//! roots are in `sys.path`. Both are left alone, and the name is derived from the path:
//!
//! - A package has the name of its directory, which is an identifier. A module begins below the last
//!   directory whose name is none, such as `site-packages`, `python3.12`, `shop-1.2.egg` or `web-app`,
//!   and below a `src`.
//! - Of a path that has only identifiers, the first directories are where the application was installed:
//!   one (`/app`), two below those of [`HOLD_APPLICATIONS`] (`/srv/shop`), three below `/usr`
//!   (`/usr/src/shop`).
//! - `__init__.py` is its package. A file without `.py` is a script, and cannot be in a package.
//!
//! Invariant: a name depends on the path alone, so that a function has the same one in all windows, on
//! all hosts and in profiles that are read again.

/// Directories of the file system's root with one directory for each application or user.
const HOLD_APPLICATIONS: [&str; 8] = ["home", "media", "mnt", "opt", "root", "srv", "tmp", "var"];

/// The name of the module in a file; [`None`] for generated code such as `<string>`.
#[must_use]
pub fn module(file: &str) -> Option<String> {
    if let Some(code) = file.strip_prefix('<') {
        let frozen = code.strip_prefix("frozen ")?.strip_suffix('>')?;
        return frozen
            .split('.')
            .all(is_identifier)
            .then(|| frozen.to_owned());
    }
    let mut directories: Vec<_> = file.split('/').collect();
    let name = directories.pop().filter(|name| !name.is_empty())?;
    let stem = name.strip_suffix(".py").filter(|stem| !stem.is_empty());
    let Some(stem) = stem else {
        return Some(name.to_owned());
    };
    let mut names = directories.split_off(root(&directories));
    if names.is_empty() && matches!(stem, "__init__" | "__main__") {
        // Many applications have these.
        names.extend(directories.last().filter(|name| !name.is_empty()));
    }
    if names.is_empty() || stem != "__init__" {
        names.push(stem);
    }
    Some(names.join("."))
}

/// How many directories of a path are not packages. An absolute path begins with an empty one.
fn root(directories: &[&str]) -> usize {
    let is_package = |name: &&str| is_identifier(name) && *name != "src";
    let below = directories.iter().rposition(|name| !is_package(name));
    let of_host = match directories {
        ["", "usr", ..] => 4,
        ["", first, ..] if HOLD_APPLICATIONS.contains(first) => 3,
        ["", ..] => 2,
        _ => 0,
    };
    let below = below.map_or(0, |index| index + 1);
    below.max(of_host).min(directories.len())
}

fn is_identifier(name: &str) -> bool {
    let mut characters = name.chars();
    let is_part = |character: char| character == '_' || character.is_alphanumeric();
    characters
        .next()
        .is_some_and(|first| is_part(first) && !first.is_numeric())
        && characters.all(is_part)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn modules_are_found_by_their_path() {
        for (file, expected) in [
            // The standard library and installed packages.
            ("/usr/lib/python3.12/json/decoder.py", "json.decoder"),
            ("/usr/lib/python3.12/json/__init__.py", "json"),
            ("/opt/python3.13t/lib/python3.13t/threading.py", "threading"),
            ("/usr/lib/python312.zip/json/decoder.py", "json.decoder"),
            ("<frozen importlib._bootstrap>", "importlib._bootstrap"),
            ("<frozen os>", "os"),
            (
                "/srv/venv/lib/python3.12/site-packages/req/api.py",
                "req.api",
            ),
            ("/usr/lib/python3/dist-packages/apt/cache.py", "apt.cache"),
            (
                "/srv/lib/site-packages/shop-1.2-py3.8.egg/shop/orders.py",
                "shop.orders",
            ),
            ("/home/me/.local/lib/python3.9/site-packages/six.py", "six"),
            // Applications.
            ("/app/main.py", "main"),
            ("/app/shop/orders.py", "shop.orders"),
            ("/srv/app/main.py", "main"),
            ("/srv/app/shop/orders.py", "shop.orders"),
            ("/srv/app/shop/api/v1/__init__.py", "shop.api.v1"),
            ("/opt/web-app/shop/orders.py", "shop.orders"),
            ("/usr/src/app/shop/orders.py", "shop.orders"),
            ("/home/me/work/src/shop/orders.py", "shop.orders"),
            ("/home/me/work/shop/orders.py", "work.shop.orders"),
            ("/srv/app/shop/größe.py", "shop.größe"),
            ("/app/shop/__main__.py", "shop.__main__"),
            ("/app/__main__.py", "app.__main__"),
            ("/app/__init__.py", "app"),
            ("/srv/shop.pyz/__main__.py", "shop.pyz.__main__"),
            ("/main.py", "main"),
            ("/__init__.py", "__init__"),
            // Scripts.
            ("/srv/app/shop-worker.py", "shop-worker"),
            ("/srv/venv/bin/gunicorn", "gunicorn"),
            ("main.py", "main"),
            ("shop/orders.py", "shop.orders"),
            ("./shop/orders.py", "shop.orders"),
            ("../other/shop/orders.py", "other.shop.orders"),
        ] {
            assert_eq!(module(file).as_deref(), Some(expected), "{file}");
        }
    }

    #[test]
    fn generated_code_has_no_module() {
        for file in [
            "",
            "/",
            "/srv/app/",
            "<string>",
            "<stdin>",
            "<frozen >",
            "<frozen a b>",
            "<frozen os",
            "<attrs generated init shop.orders.Order>",
        ] {
            assert_eq!(module(file), None, "{file}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_path(file in any::<String>(), parts in prop::collection::vec("(src|a|b-c|usr|home|)", 0..6)) {
            let path = format!("{}/{file}.py", parts.join("/"));
            for file in [&*file, &path] {
                prop_assert!(module(file).is_none_or(|name| !name.is_empty()));
            }
        }
    }
}
