//! A terminal in which the agent runs: a pseudo-terminal, and what its screen shows.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    num::NonZero,
    os::fd::{AsFd as _, OwnedFd},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use rustix::{
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt},
    termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize},
};
use test_support::child;

/// The agent in a terminal; killed on drop.
pub(crate) struct Terminal {
    agent: Child,
    /// The side of whoever sits before it.
    keyboard: File,
    /// The side of the programs in it.
    tty: OwnedFd,
    screen: Arc<Mutex<vt100::Parser>>,
}

impl Terminal {
    /// Starts the agent in a terminal of so many lines and columns.
    pub(crate) fn start(arguments: &[&str], lines: u16, columns: u16) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let keyboard = openpt(flags).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let tty = ioctl_tiocgptpeer(&keyboard, flags).unwrap();
        tcsetwinsize(&tty, size(lines, columns)).unwrap();
        let side = || Stdio::from(tty.try_clone().unwrap());
        // The terminal controls it, which is what the signal of a resize needs.
        let mut command = Command::new("setsid");
        command
            .args(["--ctty", env!("CARGO_BIN_EXE_agent")])
            .args(arguments)
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .stdin(side())
            .stdout(side())
            .stderr(side());
        let agent = child::start(&mut command);
        let keyboard = File::from(keyboard);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(
            cells(lines),
            cells(columns),
            0,
        )));
        let drawn = Arc::clone(&screen);
        let mut output = keyboard.try_clone().unwrap();
        thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut chunk) {
                drawn.lock().unwrap().process(&chunk[..length]);
            }
        });
        Self {
            agent,
            keyboard,
            tty,
            screen,
        }
    }

    /// What the screen shows.
    pub(crate) fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// The lines of the screen, once they are as wanted; fails with what the screen shows if the agent ends.
    pub(crate) fn wait_until(
        &mut self,
        what: &str,
        is_met: impl Fn(&[&str]) -> bool,
    ) -> Vec<String> {
        let mut shown = Vec::new();
        child::wait_until(what, || {
            let text = self.text();
            let lines: Vec<_> = text.lines().collect();
            let met = is_met(&lines);
            let end = self.agent.try_wait().unwrap();
            assert!(met || end.is_none(), "{what}: {end:?}\n{text}");
            shown = lines.into_iter().map(str::to_owned).collect();
            met
        });
        shown
    }

    /// The first line with a text, once there is one.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let lines = self.wait_until(text, |lines| lines.iter().any(|it| it.contains(text)));
        lines.into_iter().find(|line| line.contains(text)).unwrap()
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Changes its size.
    pub(crate) fn resize(&mut self, lines: u16, columns: u16) {
        let mut screen = self.screen.lock().unwrap();
        screen.screen_mut().set_size(cells(lines), cells(columns));
        tcsetwinsize(&self.tty, size(lines, columns)).unwrap();
    }

    /// Sends the agent a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.agent), signal).unwrap();
    }

    /// Waits until the agent has ended, and fails unless the terminal is as it was.
    pub(crate) fn end(mut self) -> ExitStatus {
        let status = self.agent.wait().unwrap();
        child::wait_until("the last bytes are drawn", || {
            let parser = self.screen.lock().unwrap();
            !parser.screen().alternate_screen() && !parser.screen().hide_cursor()
        });
        let modes = tcgetattr(self.tty.as_fd()).unwrap().local_modes;
        let usual = LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        assert!(modes.contains(usual), "{modes:?}");
        status
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // An error means that it has already ended.
        drop(self.agent.kill());
        drop(self.agent.wait());
    }
}

fn cells(number: u16) -> NonZero<u16> {
    NonZero::new(number).unwrap()
}

fn size(lines: u16, columns: u16) -> Winsize {
    Winsize {
        ws_row: lines,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}
