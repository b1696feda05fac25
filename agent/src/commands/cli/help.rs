//! Texts of the help that are not about one option.

pub(super) const USAGE: &str = "\
agent
       agent run [OPTIONS]
       agent report [OPTIONS] [FILE]...
       agent [OPTIONS] --pid <PID>
       agent [OPTIONS] -- <COMMAND>...
       agent top [--pid <PID>]
       agent gil --pid <PID>
       agent lock --pid <PID>
       agent dump --pid <PID>
       agent doctor [--pid <PID>]";

pub(super) const ABOUT: &str = "\
Shows where the CPU time of Python programs, and of all others, goes.

Samples one process without stopping or changing it, prints its hottest
functions and writes a profile; or samples every process of a host, and stores
or pushes profiles.";

pub(super) const EXAMPLES: &str = "\
Examples:
  Record 10 s of process 1234 into agent-1234.pb.gz, and browse it
    agent --pid 1234
    go tool pprof -http=: agent-1234.pb.gz

  A flame graph; folded stacks of a minute at a higher rate
    agent --pid 1234 -o profile.svg
    agent --pid 1234 -d 1m -r 499 -o stacks.txt
    agent --pid 1234 -o profile.speedscope.json  # for speedscope.app

  Several processes, in one profile
    agent --pid 1234,1235 -o both.svg
    agent --name 'gunicorn*' -o web.svg
    agent --unit web.service --children -o web.svg

  Several formats of the same capture
    agent --pid 1234 -o profile.pb.gz -o profile.svg

  A program and all that it starts
    agent --children -o tests.svg -- pytest -n 4

  Live, as top does
    agent top --pid 1234

  Every process of this host, all the time; what it has stored
    agent run --config /etc/agent/agent.yaml
    agent report --service web --from -2h -o web.svg";

pub(super) const RECORD_EXAMPLES: &str = "\
The word may be left out: `agent --pid 1234` is `agent record --pid 1234`.

What --name, --unit, --container, --pod and --cgroup select is in the profile
too if it starts later; with them a capture goes on when nothing runs any more.

Examples:
  agent record --pid 1234 -o profile.svg
  agent record --name worker.py --container 3f2c -o workers.svg
  agent record --pid 1234 --event cpu,wall -d 1m
  agent record --children -o tests.pb.gz -- pytest -n 4";

pub(super) const RUN_EXAMPLES: &str = "\
Each key of the configuration file is also an option here and an environment
variable: log_level is --log-level and AGENT_LOG_LEVEL. Options override
variables, variables override the file. Lists and maps are written as in YAML.

Examples:
  agent run --config /etc/agent/agent.yaml
  agent run --config /etc/agent/agent.yaml --check-config
  agent run --no-native --per-process --include '[{command: gunicorn}]'
  agent run --exporters '{local: {type: file, folder: /srv/profiles}}'";

pub(super) const REPORT_EXAMPLES: &str = "\
Examples:
  agent report
  agent report --service web --from -2h -o web.svg
  agent report --from '3 hours ago' --to '2 hours ago' -o before.pb.gz
  agent report --label namespace=shop -o - -f folded

  Files, also of other tools: functions, calls, other formats
    agent report agent-1234.pb.gz
    agent report --tree --min-share 5% before.pb.gz after.pb.gz
    agent report --sample-type alloc_space heap.pb.gz -o heap.svg

  The same of what is stored
    agent report --service web --from -2h --top --tree

  What has changed, for a person and for CI
    agent report --diff before.pb.gz after.pb.gz
    agent report --diff main.pb.gz branch.pb.gz --fail-above 5%";

pub(super) const TOP_EXAMPLES: &str = "\
Shares are those of the last 10 s. Enter opens a row: the functions of a process
or a thread, the callers and callees of a function. ? lists all keys.

What --name, --unit, --container, --pod and --cgroup select is shown too if it
starts later.

Examples:
  agent top
  agent top --pid 1234
  agent top --pid 1234 --no-native --table lines

  What the threads of a process that is slow wait for
    agent top --pid 1234 --event wall

  One table of 5 s as plain text
    agent top -b -n 1 -d 5 --pid 1234";

pub(super) const GIL_EXAMPLES: &str = "\
The table goes to standard output. Of a hold or wait the longest is counted in
samples: the thread may have let go between two of them.

Examples:
  agent gil --pid 1234
  agent gil --pid 1234 -d 1m -r 499

  The same as a flame graph: whom each stack with the GIL keeps waiting
    agent --pid 1234 --event gil -o gil.svg";

pub(super) const LOCK_EXAMPLES: &str = "\
The table goes to standard output. A lock has the name of a variable that refers
to it, if one was found in the functions that wait or their modules, and its
class and address. Below it are the functions that wait for it, and those that
end the waits, each with how long threads waited.

Examples:
  agent lock --pid 1234
  agent lock --pid 1234 -d 1m -r 499

  The same as flame graphs: where threads wait for locks, and where these
  are released
    agent --pid 1234 --event lock,lock-release -o lock.svg";

pub(super) const DUMP_EXAMPLES: &str = "\
The process is not stopped. A thread that does not run has the stack that it had
from before until after it was read; one that runs is sampled in its own
context; no two stacks are of the same instant. A thread whose stack could not
be proved in time has none.

Examples:
  agent dump --pid 1234
  agent dump --pid 1234 --no-native
  agent dump --pid 1234 --children --json

  Ten dumps, of which each begins two seconds after the one before
    agent dump --pid 1234 --repeat 10 --interval 2s

  Down to the kernel, with the interpreter's own functions
    agent dump --pid 1234 --kernel --internals

  Of a process that has crashed
    agent dump --core core.1234 --locals";

pub(super) const DOCTOR_EXAMPLES: &str = "\
Exits with 0 if the process, or without one this host, can be profiled, else
with 1. For a host it lists which events it has, and why not others.

Examples:
  agent doctor
  agent doctor --pid 1234";

pub(super) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  agent completions bash > /etc/bash_completion.d/agent
  agent completions zsh > /usr/local/share/zsh/site-functions/_agent
  agent completions fish > ~/.config/fish/completions/agent.fish";

pub(super) const MAN_EXAMPLES: &str = "\
Examples:
  agent man | man -l -
  agent man > /usr/local/share/man/man1/agent.1";
