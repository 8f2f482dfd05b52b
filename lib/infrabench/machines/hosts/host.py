"""Hosts: the machines where argv lists run, over one SSH connection each, or this machine itself.

Fabric makes the connection (gateways, keys, transfers). Commands then run on plain channels of that connection, because
Fabric's ``run`` has no limit on a silent peer and polls from threads: a channel with its own deadline is both
quicker (no polling) and safer (nothing waits for ever).

A dead peer is noticed in seconds by TCP itself: keep-alive packets every `KEEPALIVE_S` must be acknowledged within
`DEAD_AFTER_S` (``TCP_USER_TIMEOUT``), or the transport, and with it every waiting command, fails.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import select
import shlex
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paramiko
from fabric import Config, Connection
from paramiko.hostkeys import InvalidHostKey

from infrabench.core import CommandFailed, Host, InfrabenchError, ProvisionError, Result, SiteError
from infrabench.machines.hosts import child_process, marks, remote_shell, ssh_channel
from infrabench.machines.hosts.child_process import LineStream

# What fails is raised as an error; a session that is refused is none.
logging.getLogger("paramiko.transport").setLevel(logging.CRITICAL)

CONNECT_S = 5.0
KEEPALIVE_S = 2
DEAD_AFTER_S = 8.0
FURTHER = 9  # connections to a host that refuses sessions: its SSH server allows ten on each by default
FLUSH_S = 60.0  # for the end of a large file to reach a slow disk
# $1: a path, $2: how many bytes come. The end of a connection looks like that of a file.
_TAKE_FILE = """
mkdir -p "$(dirname "$1")" && cat >"$1.part" || exit
[ "$(wc -c <"$1.part")" -eq "$2" ] && mv "$1.part" "$1"
"""
# Environment variables that commands on this machine get, beside those of our own.
PASSED_ON = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME",
    "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH",
    "DOCKER_TLS_VERIFY", "LXD_DIR", "LXD_CONF",
})  # fmt: skip
OWN = "INFRABENCH_"
# What OpenSSH's file of a user may say of a host, and what an inventory calls it.
SSH_CONFIG = "~/.ssh/config"
CONFIGURED = {
    "hostname": "address", "user": "user", "port": "port", "identityfile": "key", "proxyjump": "gateway",
    "proxycommand": "gateway",
}  # fmt: skip


def run_checked(
    host: Host, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"",
    error: type[InfrabenchError] = ProvisionError,
) -> str:  # fmt: skip
    """Return the stdout of a command that has to succeed on `host`; else `error` with the end of its output."""
    result = host.run(argv, timeout_s=timeout_s, stdin=stdin)
    if not result.ok:
        raise error(str(CommandFailed(result, host.name)))
    return result.stdout.decode("utf-8", "replace")


class LocalHost:
    """This machine, without SSH: commands are child processes in a session of their own.

    They get of this process's environment what `PASSED_ON` names, as a host behind SSH would have it: no credential of
    the user reaches a tool whose output is kept, and no setting that other machines lack changes what is measured.
    `environment` replaces that, for programs of ours whose output is not kept (they may need a proxy, or a login).
    """

    def __init__(
        self, name: str = "localhost", address: str = "127.0.0.1", environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.address = address
        self._environment = environment

    def _passed_on(self) -> dict[str, str]:
        given = self._environment
        if given is None:
            given = {name: value for name, value in os.environ.items() if name in PASSED_ON or name.startswith(OWN)}
            given.pop(marks.TRIAL, None)  # of a trial that this process itself is a part of
        return {**given, "LC_ALL": "C", **marks.environment()}

    def run(self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"") -> Result:
        """Run `argv` and return its `Result`; after `timeout_s` its whole process group is killed."""
        started, begin = time.time(), time.monotonic()
        try:
            child = subprocess.Popen(
                list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                start_new_session=True, env=self._passed_on(),
            )  # fmt: skip
        except (OSError, ValueError) as error:  # as a shell would: not found, not executable; a NUL in a word
            # An unreadable folder on the search path also ends in "permission denied", where a shell says "not found".
            there = os.sep in argv[0] and os.path.exists(argv[0])
            status = 126 if there or isinstance(error, ValueError) else 127
            return Result(tuple(argv), status, b"", str(error).encode(), started, time.monotonic() - begin)
        said = child_process.communicate(child, stdin, timeout_s)
        return Result(
            tuple(argv), said.status, said.stdout, said.stderr, started, said.ended_s - begin, said.timed_out,
            said.flooded,
        )  # fmt: skip

    @contextmanager
    def stream(self, argv: Sequence[str]) -> Iterator[LineStream]:
        """Yield the two ends of a long-lived child; it is ended with the context."""
        child = subprocess.Popen(
            list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True, env=self._passed_on(),
        )  # fmt: skip
        assert child.stdin is not None
        assert child.stdout is not None
        stdin, stdout = child.stdin, child.stdout

        def receive(timeout_s: float) -> bytes:
            if not select.select([stdout], [], [], timeout_s)[0]:
                raise TimeoutError
            return os.read(stdout.fileno(), child_process.CHUNK)

        try:
            yield LineStream(lambda data: (stdin.write(data), stdin.flush()), receive)
        finally:
            with contextlib.suppress(OSError):
                stdin.close()
            try:
                child.wait(2)
            except subprocess.TimeoutExpired:
                child_process.kill_group(child)
                child.wait()
            stdout.close()

    def put(self, data: bytes, path: str, mode: int = 0o644) -> None:
        """Write `data` to `path`, whole or not at all."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as part:
            part.write(data)
        os.chmod(part.name, mode)
        os.replace(part.name, target)

    def get(self, path: str) -> bytes:
        """Return the bytes of `path`; `CommandFailed` when it cannot be read."""
        try:
            return Path(path).read_bytes()
        except OSError as error:
            result = Result(("read", path), 1, b"", str(error).encode(), time.time(), 0.0)
            raise CommandFailed(result, self.name) from error

    def put_file(self, source: Path, path: str) -> None:
        """Copy a large file to `path`."""
        self.run(("mkdir", "-p", os.path.dirname(path)), timeout_s=10)
        result = self.run(("cp", "--reflink=auto", str(source), path), timeout_s=600)
        if not result.ok:
            raise CommandFailed(result, self.name)

    def close(self) -> None:
        """Nothing is held open."""


def _describe_ssh_config(address: str) -> str:
    """Return a sentence on what OpenSSH is told of a host and an inventory has to say itself; empty without any.

    Only keys are named: errors end up in notebooks, and values are addresses.
    """
    path = Path(SSH_CONFIG).expanduser()
    try:
        text = path.read_text(encoding="utf-8")
        # Whether a `Match` holds may take a command, which is not ours to run.
        found = {} if re.search(r"(?im)^\s*match\s", text) else paramiko.SSHConfig.from_text(text).lookup(address)
    except (OSError, ValueError, paramiko.SSHException):
        return ""
    keys = [key for key in CONFIGURED if key in found and (key != "hostname" or found[key] != address)]
    if not keys:
        return ""
    own = ", ".join(dict.fromkeys(CONFIGURED[key] for key in keys))
    return f" {SSH_CONFIG} has {', '.join(keys)} for it, and is not read: write {own} into the inventory."


class SSHHost:
    """A machine reached over an SSH connection that Fabric opens; its host key must be known.

    Where its server has as many sessions on the connection as it allows, the next ones are on another. With `sudo`, all
    commands run as root, by the login's right to sudo without a password.
    """

    def __init__(
        self, name: str, address: str, *, user: str = "root", port: int = 22, key: Path | None = None,
        known_hosts: Path | None = None, gateway: SSHHost | None = None, sudo: bool = False,
    ) -> None:  # fmt: skip
        self.name = name
        self._sudo = sudo
        self._login: dict[str, Any] = {
            "user": user, "port": port, "key": key, "known_hosts": known_hosts, "gateway": gateway, "sudo": sudo,
        }  # fmt: skip
        self._next: SSHHost | None = None
        self._further = FURTHER
        self.address = address
        self._gateway = gateway
        connect: dict[str, object] = {"banner_timeout": CONNECT_S, "auth_timeout": CONNECT_S}
        if key is not None:
            connect |= {"key_filename": str(key), "allow_agent": False, "look_for_keys": False}
        self._connection = Connection(
            address, user=user, port=port, connect_timeout=int(CONNECT_S), connect_kwargs=connect,
            gateway=gateway._connection if gateway else None, config=Config(lazy=True),
        )  # fmt: skip
        client = self._connection.client
        client.set_missing_host_key_policy(paramiko.RejectPolicy())
        try:
            client.load_system_host_keys() if known_hosts is None else client.load_host_keys(str(known_hosts))
        except (paramiko.SSHException, InvalidHostKey, OSError, ValueError) as error:
            raise SiteError(f"{name}: the known-hosts file {known_hosts or ''} cannot be read: {error}") from error
        self._lock = threading.RLock()
        self._is_checked = False  # whether commands put out what they say, and nothing else

    def _transport(self) -> paramiko.Transport:
        with self._lock:
            transport = self._connection.transport
            if transport is not None and transport.is_active():
                return transport
            if transport is not None:
                raise SiteError(f"{self.name}: the SSH connection was lost. Is the host still up?")
            if self._gateway is not None:
                self._gateway._transport()
            try:
                self._connection.open()
            except paramiko.BadHostKeyException as error:
                hint = (
                    "Was it installed anew? Compare the fingerprint on its console, then mend its line in known-hosts"
                )
                raise SiteError(f"{self.name}: its host key changed: {self._said(error)}. {hint}") from error
            except paramiko.AuthenticationException as error:
                hint = f"Check user and key.{_describe_ssh_config(self.address)}"
                raise SiteError(f"{self.name}: login refused: {self._said(error)}. {hint}") from error
            except (paramiko.SSHException, OSError, EOFError, ValueError) as error:  # ValueError: a key that is none
                hint = "Is its key in the known-hosts file?" if "not found in known_hosts" in str(error) else (
                    "Check address, port, key and whether the host is up."
                )  # fmt: skip
                hint += _describe_ssh_config(self.address)
                raise SiteError(f"{self.name}: cannot connect: {self._said(error)}. {hint}") from error
            transport = self._connection.transport
            transport.set_keepalive(KEEPALIVE_S)
            with contextlib.suppress(AttributeError, OSError):  # a gateway's channel is not a TCP socket
                transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(DEAD_AFTER_S * 1000))
                transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return transport

    def _said(self, error: Exception) -> str:
        """Return what an error of the connection says, by the host's name: errors end up in notebooks and records."""
        why = str(error).removeprefix("[Errno None] ")  # paramiko's own errors have no number
        return why.replace(self.address, self.name)

    def _channel(self, script: str) -> paramiko.Channel:
        transport = self._transport()
        with self._lock:
            if not self._is_checked:
                self._check_shell(transport)
                self._is_checked = True
        return self._open_channel(transport, script)

    def _check_shell(self, transport: paramiko.Transport) -> None:
        """Raise `SiteError` unless commands of this host put out what the command says and nothing else."""
        out, err = bytearray(), bytearray()
        channel = self._open_channel(transport, remote_shell.CHECK)
        try:
            ssh_channel.drain(channel, out, err, time.monotonic() + CONNECT_S + DEAD_AFTER_S)
        except child_process.Flood:
            del out[child_process.KEPT_BYTES :]
        except ssh_channel.LOST as error:
            raise SiteError(f"{self.name}: the connection broke: {self._said(error)}") from error
        finally:
            ssh_channel.close(channel)
        if problem := remote_shell.find_problem(bytes(out), bytes(err)):
            raise SiteError(f"{self.name}: {problem}")

    def _open_channel(self, transport: paramiko.Transport, script: str) -> paramiko.Channel:
        limit_s = CONNECT_S + DEAD_AFTER_S
        watch = threading.Timer(2 * limit_s, transport.close)  # paramiko waits for some answers without end
        watch.daemon = True
        watch.start()
        try:
            channel = transport.open_session(timeout=limit_s)
            channel.settimeout(limit_s)
            channel.exec_command(remote_shell.command_line(script, sudo=self._sudo))
        except paramiko.ChannelException as error:
            if not self._further:
                raise SiteError(
                    f"{self.name}: cannot run a command: its SSH server opens no further session on any of "
                    f"{FURTHER + 1} connections ({error.text}). Does MaxSessions in its sshd_config allow any?"
                ) from error
            watch.cancel()  # making another connection takes its own time, and nothing of this one's
            return self._next_connection()._channel(script)
        except ssh_channel.LOST as error:
            raise SiteError(f"{self.name}: cannot run a command: {self._said(error)}. Is the host up?") from error
        finally:
            watch.cancel()
        return channel

    def _next_connection(self) -> SSHHost:
        """Return the same host over a connection of its own, for sessions that this one may not have."""
        with self._lock:
            if self._next is None:
                self._next = SSHHost(self.name, self.address, **self._login)
                self._next._further = self._further - 1
            return self._next

    def run(self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"") -> Result:
        """Run `argv` and return its `Result`; the time limit is kept there too. `SiteError` when the host is lost."""
        started, begin = time.time(), time.monotonic()
        channel = self._channel(remote_shell.timed_command(argv, timeout_s, marks.environment()))
        out, err = bytearray(), bytearray()
        deadline = begin + timeout_s + DEAD_AFTER_S
        flooded = finished = False
        feeder = ssh_channel.start_feeding(channel, stdin)
        try:
            finished = ssh_channel.drain(channel, out, err, deadline)
            status = channel.recv_exit_status() if finished else None
        except child_process.Flood:
            status, flooded = None, True
            del out[child_process.KEPT_BYTES :], err[child_process.KEPT_BYTES :]
        except ssh_channel.LOST as error:
            raise SiteError(f"{self.name}: the connection broke: {self._said(error)}") from error
        finally:
            ssh_channel.close(channel)
            if feeder.is_alive():
                feeder.join(CONNECT_S)
        duration = time.monotonic() - begin
        if finished and status == -1:
            if not self._connection.is_connected:
                raise SiteError(f"{self.name}: the connection was lost while {argv[0]} ran")
            status = None  # the shell itself was killed
        if not finished and not flooded:
            # The limit is kept there too, so the command should have ended: is the host still there at all?
            ssh_channel.close(self._channel("true"))
        timed_out = not flooded and (not finished or (status in (124, 137) and duration >= timeout_s))
        return Result(
            tuple(argv), None if timed_out else status, bytes(out), bytes(err), started, duration, timed_out, flooded
        )

    @contextmanager
    def stream(self, argv: Sequence[str]) -> Iterator[LineStream]:
        """Yield the two ends of a long-lived process; closing its stdin ends it."""
        channel = self._channel(f"exec {shlex.join(argv)}")
        try:
            yield ssh_channel.open_stream(channel)
        finally:
            with contextlib.suppress(OSError, EOFError):
                channel.shutdown_write()
            ssh_channel.close(channel)

    def put(self, data: bytes, path: str, mode: int = 0o644) -> None:
        """Write `data` to `path`, whole or not at all."""
        script = 'mkdir -p "$(dirname "$1")" && cat >"$1.part" && chmod "$2" "$1.part" && mv "$1.part" "$1"'
        result = self.run(("sh", "-c", script, "sh", path, f"{mode:o}"), timeout_s=60, stdin=data)
        if not result.ok:
            raise CommandFailed(result, self.name)

    def put_file(self, source: Path, path: str) -> None:
        """Copy a large file to `path`, whole or not at all; `SiteError` when the host stops taking it."""
        argv = ("sh", "-c", _TAKE_FILE, "sh", path, str(source.stat().st_size))
        started, begin = time.time(), time.monotonic()
        channel = self._channel(f"exec {shlex.join(argv)}")
        out, err = bytearray(), bytearray()
        try:
            try:
                with source.open("rb") as file:
                    while chunk := file.read(child_process.CHUNK):
                        channel.sendall(chunk)
                channel.shutdown_write()
            except OSError:  # a command that has no room takes no more, and says so
                if not channel.exit_status_ready():
                    raise
            finished = ssh_channel.drain(channel, out, err, time.monotonic() + FLUSH_S)
            status = channel.recv_exit_status() if finished else None
        except ssh_channel.LOST as error:
            why = str(error) or "no answer"
            raise SiteError(f"{self.name}: {source} cannot be copied to {path}: {why}") from error
        finally:
            ssh_channel.close(channel)
        if status != 0:
            result = Result(argv, status, bytes(out), bytes(err), started, time.monotonic() - begin, not finished)
            raise CommandFailed(result, self.name)

    def get(self, path: str) -> bytes:
        """Return the bytes of `path`; `CommandFailed` when it cannot be read."""
        result = self.run(("cat", path), timeout_s=60)
        if not result.ok:
            raise CommandFailed(result, self.name)
        return result.stdout

    def close(self) -> None:
        """End its connections."""
        if self._next is not None:
            self._next.close()
        self._connection.close()
