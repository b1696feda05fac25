//! The Unix socket, which its group may connect to.
//!
//! Invariants: it has its mode before anybody can connect; the socket of an agent that runs is not
//! replaced, that of one that has ended is; on drop it is removed, unless another has its name.

use std::{
    fs::{self, DirBuilder},
    io,
    os::{
        fd::{AsFd as _, AsRawFd as _},
        unix::{
            fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _},
            net,
        },
    },
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use rustix::{
    fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, chmodat, fchmod, flock, open},
    io::Errno,
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
    },
};
use tokio::net::UnixListener;

use super::error::SocketError;

/// Mode of the socket: its user and its group may connect.
const MODE: Mode = Mode::from_raw_mode(0o660);

/// Mode of its folder, if that has to be made.
const FOLDER_MODE: u32 = 0o750;

/// Connections that the kernel queues.
const BACKLOG: i32 = 64;

/// How often and after what pause the folder is locked again: another agent starts, and only for a
/// moment. Whoever else holds the lock does not prevent the start.
const LOCK_ATTEMPTS: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// The name of a bound socket, which is removed on drop.
#[derive(Debug)]
pub(super) struct SocketName {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

/// Listens at a path, which must be free or the socket of an agent that has ended.
pub(super) fn listen_at(path: &Path) -> Result<(UnixListener, SocketName), SocketError> {
    let address = SocketAddrUnix::new(path).map_err(io::Error::from)?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    match DirBuilder::new().mode(FOLDER_MODE).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error.into()),
        _ => {}
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = open(folder, flags, Mode::empty()).map_err(io::Error::from)?;
    // Two agents that start must not both find the socket of a third one that has ended.
    for _ in 0..LOCK_ATTEMPTS {
        if flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
            break;
        }
        thread::sleep(LOCK_PAUSE);
    }
    remove_if_dead(path, &address)?;
    bound(path, &address)
}

/// Removes the socket of an agent that has ended.
fn remove_if_dead(path: &Path, address: &SocketAddrUnix) -> Result<(), SocketError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => {}
        Ok(_) => return Err(SocketError::NotASocket),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    // It must not wait for an agent that does not accept.
    let socket = unbound()?;
    match connect(&socket, address) {
        Err(Errno::CONNREFUSED) => Ok(fs::remove_file(path)?),
        Ok(()) | Err(Errno::AGAIN) => Err(SocketError::InUse),
        Err(error) => Err(io::Error::from(error).into()),
    }
}

fn unbound() -> io::Result<rustix::fd::OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        flags,
        None,
    )?)
}

fn bound(path: &Path, address: &SocketAddrUnix) -> Result<(UnixListener, SocketName), SocketError> {
    let socket = unbound()?;
    // What is bound has at most the mode of the socket, whatever the umask.
    fchmod(&socket, Mode::RUSR | Mode::WUSR).map_err(io::Error::from)?;
    bind(&socket, address).map_err(|error| match error {
        Errno::ADDRINUSE => SocketError::InUse,
        error => io::Error::from(error).into(),
    })?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = fs::File::from(open(path, flags, Mode::empty()).map_err(io::Error::from)?);
    let metadata = file.metadata()?;
    if !metadata.file_type().is_socket() {
        return Err(SocketError::NotASocket);
    }
    let name = SocketName {
        path: path.to_owned(),
        identity: (metadata.dev(), metadata.ino()),
    };
    // The file itself, not what has its name by now.
    let link = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    chmodat(CWD, link, MODE, AtFlags::empty()).map_err(io::Error::from)?;
    listen(&socket, BACKLOG).map_err(io::Error::from)?;
    let listener = UnixListener::from_std(net::UnixListener::from(socket))?;
    Ok((listener, name))
}

impl Drop for SocketName {
    fn drop(&mut self) {
        let is_it = |metadata: fs::Metadata| (metadata.dev(), metadata.ino()) == self.identity;
        if fs::symlink_metadata(&self.path).is_ok_and(is_it) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::PermissionsExt as _, net::UnixStream};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[tokio::test]
    async fn its_user_and_its_group_may_connect() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("run").join("agent.sock");
        let (listener, name) = listen_at(&path).unwrap();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o660, 0o750));
        UnixStream::connect(&path).unwrap();
        drop((listener, name));
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn only_the_socket_of_an_ended_agent_is_replaced() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("agent.sock");
        let (listener, name) = listen_at(&path).unwrap();
        assert!(matches!(listen_at(&path), Err(SocketError::InUse)));
        // The refused one has left it alone.
        UnixStream::connect(&path).unwrap();
        // It has ended and could not remove its socket.
        std::mem::forget(name);
        drop(listener);
        assert!(path.exists());
        let (_listener, _name) = listen_at(&path).unwrap();
        UnixStream::connect(&path).unwrap();
    }

    #[tokio::test]
    async fn an_agent_that_does_not_accept_is_not_replaced() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("agent.sock");
        let listener = net::UnixListener::bind(&path).unwrap();
        listen(&listener, 0).unwrap();
        let _queued = UnixStream::connect(&path).unwrap();
        assert!(matches!(listen_at(&path), Err(SocketError::InUse)));
    }

    #[tokio::test]
    async fn other_files_are_kept() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("agent.sock");
        fs::write(&path, "precious").unwrap();
        assert!(matches!(listen_at(&path), Err(SocketError::NotASocket)));
        let link = root.path().join("link");
        std::os::unix::fs::symlink("agent.sock", &link).unwrap();
        assert!(matches!(listen_at(&link), Err(SocketError::NotASocket)));
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        fs::remove_file(&path).unwrap();
        // A socket that has taken the name is another agent's.
        let (_listener, name) = listen_at(&path).unwrap();
        fs::rename(&path, root.path().join("old")).unwrap();
        let (_other, _other_name) = listen_at(&path).unwrap();
        drop(name);
        UnixStream::connect(&path).unwrap();
    }

    #[tokio::test]
    async fn a_path_that_is_too_long_is_an_error() {
        let path = Path::new("/tmp").join("x".repeat(200));
        assert!(matches!(listen_at(&path), Err(SocketError::Kernel(_))));
    }
}
