//! The library that a function belongs to: a package of Python, a folder of the program, or a file of machine code.

use std::borrow::Cow;

use crate::{
    formats::python_module,
    profile::{Executable, ExecutableKind, FrameKind, Location, Profile},
    text::{printable, shortened_path},
};

/// Most columns of a folder of the program.
const FOLDER_WIDTH: usize = 24;

/// The library of the innermost function of a location: the package of a Python function, and of a function in an
/// extension module of one; the folder of a Python function of no installed package, which has no certain name; the
/// name of the file of another one, or `[kernel]`. [`None`] of a marker.
pub(super) fn library<'a>(profile: &'a Profile, location: &Location) -> Option<Cow<'a, str>> {
    let executable = || {
        let code = location.code?;
        Some(of_executable(profile.executable(code.executable)))
    };
    let Some(line) = location.lines.first() else {
        return executable();
    };
    let function = profile.function(line.function);
    match function.kind {
        FrameKind::Python => Some(package(&function.file)),
        FrameKind::Native | FrameKind::Kernel => executable(),
        FrameKind::Marker => None,
    }
}

/// The first name of the module in a file of an installed package, else its folder, or of generated code what it says.
fn package(file: &str) -> Cow<'_, str> {
    let is_installed =
        file.starts_with('<') || file.split('/').any(has_packages) || is_in_package(file);
    match (python_module(file), file.rsplit_once('/')) {
        (Some(_), Some((folder, name))) if !is_installed => match folder {
            "" => printable(name),
            folder => {
                let shortened = shortened_path(folder, FOLDER_WIDTH);
                let last = || folder.rsplit('/').next().unwrap_or_default().into();
                printable(&shortened.unwrap_or_else(last))
                    .into_owned()
                    .into()
            }
        },
        (Some(module), _) => {
            let package = module.split('.').next().unwrap_or_default();
            printable(package).into_owned().into()
        }
        (None, _) => printable(file),
    }
}

/// Whether a file is in a package for certain: below a folder that cannot be one, because of its name, is another one.
fn is_in_package(file: &str) -> bool {
    let mut folders = file.rsplit('/').skip(1);
    let last = folders.next().unwrap_or_default();
    let is_none = |folder: &str| folder.contains(['-', '.']) && !folder.starts_with('.');
    !is_none(last) && folders.any(is_none)
}

/// Whether a folder is one of installed packages, or of the standard library.
fn has_packages(folder: &str) -> bool {
    let version = folder.strip_prefix("python");
    let is_library = version.is_some_and(|it| it.starts_with(|c: char| c.is_ascii_digit()));
    is_library || matches!(folder, "site-packages" | "dist-packages")
}

fn of_executable(executable: &Executable) -> Cow<'_, str> {
    if executable.is_kernel() {
        // Whichever of its modules.
        return "[kernel]".into();
    }
    let name = executable.name();
    if executable.kind == ExecutableKind::File
        && is_extension_module(&name)
        && let Some(stem) = name.split('.').next().filter(|stem| !stem.is_empty())
    {
        let source = executable.path.with_file_name(format!("{stem}.py"));
        return package(&source.to_string_lossy()).into_owned().into();
    }
    printable(&name).into_owned().into()
}

/// Whether a file is one that Python imports, by how these are named on Linux.
fn is_extension_module(name: &str) -> bool {
    let stem = name.strip_suffix(".so");
    let tag = stem.and_then(|stem| stem.split('.').nth(1));
    tag.is_some_and(|tag| tag.starts_with("cpython-") || tag == "abi3")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_belongs_to_its_package_or_file() {
        for (file, expected) in [
            ("/srv/shop/orders.py", "/srv/shop"),
            (
                "/srv/a/folder/with/a/long/name/shop/orders.py",
                "…/with/a/long/name/shop",
            ),
            ("/opt/web-app/shop/orders.py", "shop"),
            ("/opt/web-app/orders.py", "/opt/web-app"),
            ("/home/me/.local/shop/orders.py", "/home/me/.local/shop"),
            ("/orders.py", "orders.py"),
            ("orders.py", "orders"),
            ("/srv/venv/lib/python3.12/site-packages/req/api.py", "req"),
            ("/usr/lib/python3.12/json/decoder.py", "json"),
            ("<frozen importlib._bootstrap>", "importlib"),
            ("<string>", "<string>"),
        ] {
            assert_eq!(package(file), expected);
        }
        let native = |kind, path: &str| {
            let executable = Executable {
                path: path.into(),
                build_id: None,
                kind,
                start: 0,
                limit: 0,
                file_offset: 0,
            };
            of_executable(&executable).into_owned()
        };
        let packages = "/srv/venv/lib/python3.12/site-packages";
        let tag = "cpython-312-x86_64-linux-gnu.so";
        for (path, expected) in [
            (
                &*format!("{packages}/numpy/_core/_multiarray_umath.{tag}"),
                "numpy",
            ),
            (&*format!("{packages}/orjson.abi3.so"), "orjson"),
            (
                &*format!("/usr/lib/python3.12/lib-dynload/math.{tag}"),
                "math",
            ),
            (
                &*format!("/opt/packages-3.12/numpy/_core/_multiarray_umath.{tag}"),
                "numpy",
            ),
            (
                &*format!("{packages}/numpy.libs/libopenblas.so"),
                "libopenblas.so",
            ),
            ("/usr/lib/libc.so.6", "libc.so.6"),
        ] {
            assert_eq!(native(ExecutableKind::File, path), expected);
        }
        assert_eq!(native(ExecutableKind::KernelModule, "ext4"), "[kernel]");
    }
}
