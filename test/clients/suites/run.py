"""Runs the public test suites of drivers against a server of its own, and compares what fails with the lists beside this file.

The suites' sources come from their registries into a cache outside of the checkout; none of their code is kept here. A list names
what is known to fail, under headings that say why:

    == out: what the server does not have on purpose
    == feature: what it does not have yet, a feature of its own
    == in: what it should do
    == not: what fails against PostgreSQL 15 set up in this way as well, or does not run

A test that fails and is in no list, or is in one and passes, fails the run. `--write` writes the lists anew: tests that are new in
them come under `== in: to be looked at`.
"""

import argparse
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import xml.etree.ElementTree as ElementTree

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "glimpse" / "suites"
POSTGRES = pathlib.Path("/usr/lib/postgresql/15/bin")

# Who may connect, and how; the last rule is the suites' ordinary user.
RULES = """\
hostssl all pqgossl 127.0.0.1/32 trust
hostnossl all pqgossl 127.0.0.1/32 reject
hostnossl all pqgosslcert 127.0.0.1/32 reject
host all pass_user,md5_user,scram_user,pqgomd5,pqgopassword,pqgoscram 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""

# What the suites expect to be there.
ROLES = {"postgres": "", "pgx_md5": "", "pqgo": "", "pqgossl": "", "pqgosslcert": ""}
ROLES |= {name: "password" for name in ("pass_user", "md5_user", "scram_user")}
ROLES |= {name: "wordpass" for name in ("pqgomd5", "pqgopassword", "pqgoscram")}
DATABASES = ("postgres", "pgx_test", "pqgo")


def run(command, **options):
    return subprocess.run([str(part) for part in command], check=True, **options)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


# ---- servers


class Server:
    """A server with the suites' roles and databases, on a port of 127.0.0.1."""

    def __init__(self, directory, certificates):
        self.directory, self.port, self.log = directory, free_port(), directory / "server.log"
        self.certificates = certificates

    def sql(self, port, user, database, statement, **options):
        url = f"host=127.0.0.1 port={port} user={user} dbname={database}"
        run(["psql", "-qX", "-v", "ON_ERROR_STOP=1", url, "-c", statement], stdout=subprocess.DEVNULL, **options)

    def wait(self, port, user, database):
        deadline = time.monotonic() + 60
        while True:
            try:
                return self.sql(port, user, database, "SELECT 1", stderr=subprocess.DEVNULL)
            except subprocess.CalledProcessError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def populate(self, port, user, database):
        self.wait(port, user, database)
        for role, password in ROLES.items():
            login = f"PASSWORD '{password}'" if password else "SUPERUSER"
            if role != user:
                self.sql(port, user, database, f"CREATE ROLE {role} LOGIN {login}")
        for name in DATABASES:
            if name != database:
                self.sql(port, user, database, f"CREATE DATABASE {name}")


class Glimpse(Server):
    def __enter__(self):
        target = pathlib.Path(os.environ["CARGO_TARGET_DIR"]) / "debug" / "environmentd"
        program = os.environ.get("GLIMPSE_ENVIRONMENTD", target)
        rules = self.directory / "hba.conf"
        rules.write_text(RULES)
        key = self.directory / "server.key"
        shutil.copy(self.certificates / "server.key", key)
        key.chmod(0o600)
        internal = free_port()
        command = [program, "--data-dir", self.directory / "data", "--hba-file", rules]
        command += ["--tls-cert", self.certificates / "server.crt", "--tls-key", key]
        for flag, port in [("sql", self.port), ("internal-sql", internal), ("http", 0), ("internal-http", 0)]:
            command += [f"--{flag}-listen-addr", f"127.0.0.1:{port}"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log)
        self.populate(internal, "mz_system", "materialize")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)

    def panics(self):
        text = self.log.read_text(errors="replace")
        return [line for line in text.splitlines() if "panicked" in line] + [
            "the server ended" for _ in [0] if self.process.poll() is not None
        ]


class Postgres(Server):
    """PostgreSQL 15, to prove the suites."""

    def __enter__(self):
        data = self.directory / "data"
        prefix = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        if prefix:
            self.directory.chmod(0o755)
            data.mkdir()
            shutil.chown(data, "postgres")
        initdb = [*prefix, POSTGRES / "initdb", "-D", data, "-A", "trust", "-U", "postgres"]
        run(initdb, stdout=subprocess.DEVNULL, cwd=self.directory)
        (data / "pg_hba.conf").write_text(RULES)
        for name in ("server.crt", "server.key"):
            shutil.copy(self.certificates / name, data / name)
            (data / name).chmod(0o600)
            if prefix:
                shutil.chown(data / name, "postgres")
        options = ["-p", str(self.port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
        options += ["-c", "ssl=on", "-c", "fsync=off"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [str(part) for part in [*prefix, POSTGRES / "postgres", "-D", data, *options]],
                cwd=self.directory,
                stdout=log,
                stderr=log,
            )
        self.populate(self.port, "postgres", "postgres")
        return self

    def __exit__(self, *_):
        pid = int((self.directory / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, 2)
        self.process.wait(30)

    def panics(self):
        return []


# ---- suites


class Suite:
    name = version = ""

    def directory(self):
        return CACHE / f"{self.name}-{self.version}"

    def fetch(self):
        """Brings the sources into the cache, unless they are there."""
        if not (self.directory() / "fetched").exists():
            shutil.rmtree(self.directory(), ignore_errors=True)
            self.directory().mkdir(parents=True)
            self.download()
            (self.directory() / "fetched").touch()

    def environment(self, server, database, user):
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        return variables | {
            "PGHOST": "127.0.0.1",
            "PGPORT": str(server.port),
            "PGUSER": user,
            "PGDATABASE": database,
            "PGSSLMODE": "disable",
        }


class GoSuite(Suite):
    module = ""
    # Tests that wait for something without a deadline.
    endless = ()

    def download(self):
        asked = run(["go", "mod", "download", "-json", f"{self.module}@v{self.version}"], stdout=subprocess.PIPE)
        source = pathlib.Path(json.loads(asked.stdout)["Dir"])
        shutil.copytree(source, self.directory(), dirs_exist_ok=True)
        run(["chmod", "-R", "u+w", self.directory()])

    def run(self, server):
        command = ["go", "test", "-p", "1", "-vet=off", "-json", "-timeout", "300s"]
        if self.endless:
            command += ["-skip", "^(" + "|".join(self.endless) + ")$"]
        variables = self.variables(server) | {"GOFLAGS": "-mod=mod"}
        done = subprocess.run(
            [*command, "./..."], cwd=self.directory(), env=variables, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        (self.directory() / "run.log").write_bytes(done.stdout)
        results, started = {}, set()
        for line in done.stdout.decode(errors="replace").splitlines():
            event = json.loads(line) if line.startswith("{") else {}
            test = event.get("Test")
            if not test or "/" in test:
                continue
            package = event["Package"].removeprefix(self.module).lstrip("/")
            name = f"{package}.{test}" if package else test
            if event["Action"] == "run":
                started.add(name)
            elif event["Action"] in ("pass", "fail", "skip"):
                results[name] = event["Action"]
        hung = {name: "fail" for name in started - set(results)}
        return results | hung | {name: "fail" for name in self.endless}


class Pgx(GoSuite):
    name, version, module = "pgx", "5.12.0", "github.com/jackc/pgx/v5"
    endless = ("TestListenNotifyWhileBusyIsSafe",)

    def variables(self, server):
        url = f"host=127.0.0.1 port={server.port} user=pgx_md5 dbname=pgx_test sslmode=disable"
        own = {"PGX_TEST_DATABASE": url, "PGX_TEST_TCP_CONN_STRING": url}
        return {name: value for name, value in os.environ.items() if not name.startswith("PG")} | own


class LibPq(GoSuite):
    name, version, module = "libpq", "1.12.3", "github.com/lib/pq"

    def variables(self, server):
        variables = self.environment(server, "pqgo", "pqgo")
        # Its own defaults, which its tests compare with.
        for name in ("PGHOST", "PGUSER", "PGDATABASE", "PGSSLMODE"):
            del variables[name]
        return variables


class PythonSuite(Suite):
    runner = "pytest==9.*"
    packages = ()
    distribution = ""

    def install(self):
        run([sys.executable, "-m", "venv", self.directory() / "python"])
        pip = self.directory() / "python" / "bin" / "pip"
        run([pip, "install", "-q", *self.packages, self.runner, "pytest-timeout"])
        return pip

    def download(self):
        pip = self.install()
        # The tests are in the archive of the sources alone, for whose metadata nothing has to be compiled.
        variables = os.environ | {"PATH": f"{POSTGRES}:{os.environ['PATH']}"}
        archive = f"{self.distribution}=={self.version}"
        download = [pip, "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", self.directory(), archive]
        run(download, env=variables)
        with tarfile.open(next(self.directory().glob("*.tar.gz"))) as sources:
            members = [member for member in sources if "/tests/" in member.name]
            sources.extractall(self.directory(), members, filter="data")
        next(self.directory().glob("*/tests")).rename(self.directory() / "tests")

    def run(self, server):
        report = self.directory() / "report.xml"
        report.unlink(missing_ok=True)
        command = [self.directory() / "python" / "bin" / "python", "-m", "pytest", "tests", "-q", "--timeout", "60"]
        command += ["-p", "no:cacheprovider", f"--junitxml={report}", *self.options()]
        output = subprocess.DEVNULL
        subprocess.run(
            [str(part) for part in command], cwd=self.directory(), env=self.variables(server), stdout=output, stderr=output
        )
        results = {}
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            name = f"{case.get('classname').removeprefix('tests.')}.{case.get('name')}"
            kinds = {child.tag for child in case}
            result = "fail" if kinds & {"failure", "error"} else "skip" if "skipped" in kinds else "pass"
            if results.get(name) != "fail":
                results[name] = result
        return results

    def options(self):
        return []


class Asyncpg(PythonSuite):
    name, version, distribution = "asyncpg", "0.32.0", "asyncpg"
    packages = ("asyncpg==0.32.0", "distro")

    def variables(self, server):
        return self.environment(server, "postgres", "postgres")


class Psycopg2(PythonSuite):
    name, version, distribution = "psycopg2", "2.9.13", "psycopg2"
    packages = ("psycopg2-binary==2.9.13",)

    def variables(self, server):
        variables = self.environment(server, "postgres", "postgres")
        return variables | {"PSYCOPG2_TESTDB": "postgres", "PSYCOPG2_TEST_FAST": "1"}


class Psycopg3(PythonSuite):
    """Of the public repository those files that `psycopg3/files.txt` names, each as it was at the commit beside it: no archive has them."""

    name, version = "psycopg3", "3.3.9"
    repository = "https://github.com/psycopg/psycopg"
    runner = "pytest==8.*"
    packages = (f"psycopg[binary]=={version}", "packaging")

    def download(self):
        rows = (line.split() for line in (HERE / "psycopg3" / "files.txt").read_text().splitlines() if not line.startswith("#"))
        commits = {path: commit for commit, path in rows}
        with tempfile.TemporaryDirectory() as clone:
            run(["git", "init", "-q", clone])
            fetch = ["git", "fetch", "-q", "--depth", "1", self.repository, *sorted(set(commits.values()))]
            run(fetch, cwd=clone, stderr=subprocess.DEVNULL)
            for path, commit in commits.items():
                file = self.directory() / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(run(["git", "show", f"{commit}:{path}"], cwd=clone, stdout=subprocess.PIPE).stdout)
        self.install()

    def run(self, server):
        shutil.copy(HERE / "psycopg3" / "conftest.py", self.directory() / "tests")
        for package in ("tests", "tests/types"):
            (self.directory() / package / "__init__.py").touch()
        self.dsn = f"host=127.0.0.1 port={server.port} user=postgres dbname=postgres sslmode=disable"
        return super().run(server)

    def variables(self, server):
        return self.environment(server, "postgres", "postgres")

    def options(self):
        # The twins of the same tests for asyncio need plugins of their own.
        return ["--test-dsn", self.dsn, "-k", "not async"]


class TokioPostgres(Suite):
    name, version = "tokio-postgres", "0.7.18"
    features = "array-impls with-chrono-0_4 with-serde_json-1 with-time-0_3 with-uuid-1"

    def download(self):
        # A package of nothing that depends on the crate lets cargo fetch its sources.
        with tempfile.TemporaryDirectory() as empty:
            run(["cargo", "init", "-q", "--lib", "--vcs", "none", "--name", "fetch", empty])
            run(["cargo", "add", "-q", f"tokio-postgres@={self.version}"], cwd=empty)
            metadata = run(["cargo", "metadata", "--format-version", "1"], cwd=empty, stdout=subprocess.PIPE)
        packages = json.loads(metadata.stdout)["packages"]
        manifest = next(package["manifest_path"] for package in packages if package["name"] == self.name)
        shutil.copytree(pathlib.Path(manifest).parent, self.directory(), dirs_exist_ok=True)
        run(["chmod", "-R", "u+w", self.directory()])

    def run(self, server):
        # The port is written into the tests.
        for source in (self.directory() / "tests").rglob("*.rs"):
            mark = source.with_suffix(".original")
            if not mark.exists():
                shutil.copy(source, mark)
            source.write_text(mark.read_text().replace("5433", str(server.port)))
        command = ["cargo", "test", "--test", "test", "--no-fail-fast", "--features", self.features]
        variables = os.environ | {"CARGO_TARGET_DIR": str(CACHE / "target")}
        done = subprocess.run(
            command, cwd=self.directory(), env=variables, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=1800
        )
        (self.directory() / "run.log").write_bytes(done.stdout)
        results = {}
        for line in done.stdout.decode(errors="replace").splitlines():
            words = line.split()
            if words[:1] == ["test"] and len(words) >= 4 and words[-1] in ("ok", "FAILED", "ignored"):
                results[words[1]] = {"ok": "pass", "FAILED": "fail", "ignored": "skip"}[words[-1]]
        return results


SUITES = [Pgx(), LibPq(), Asyncpg(), Psycopg2(), Psycopg3(), TokioPostgres()]


# ---- lists


def read_list(suite):
    """The tests that are known to fail: from a heading's text to its tests, in their order."""
    path, sections = HERE / f"{suite.name}.txt", {}
    current = None
    for line in path.read_text().splitlines() if path.exists() else []:
        if line.startswith("== "):
            current = sections.setdefault(line[3:], [])
        elif line and not line.startswith("#"):
            current.append(line)
    return sections


def write_list(suite, sections, results):
    failed = {name for name, result in results.items() if result == "fail"}
    listed = {test for tests in sections.values() for test in tests}
    sections.setdefault("in: to be looked at", []).extend(sorted(failed - listed))
    lines = [f"# What fails of {suite.name} {suite.version}; the headings are explained in run.py."]
    for heading, tests in sections.items():
        kept = tests if heading.startswith("not") else [test for test in tests if test in failed]
        if kept:
            lines += ["", f"== {heading}", *kept]
    (HERE / f"{suite.name}.txt").write_text("\n".join(lines) + "\n")


def report(suite, sections, results):
    """Prints the figures, and says whether the lists are right."""
    scope = {test: heading.split(":")[0] for heading, tests in sections.items() for test in tests}
    ran = {name: result for name, result in results.items() if result != "skip" and scope.get(name) != "not"}
    failed = {name for name, result in ran.items() if result == "fail"}
    count = lambda word: sum(1 for name in failed if scope.get(name) == word)
    in_scope = len(ran) - count("out") - count("feature")
    passed = len(ran) - len(failed)
    print(
        f"{suite.name} {suite.version}: {len(ran)} ran, {passed} passed; failed: {count('out')} out of scope, "
        f"{count('feature')} missing features, {len(failed) - count('out') - count('feature')} others; "
        f"{100 * passed / max(in_scope, 1):.1f} % of the {in_scope} in scope pass, "
        f"{100 * passed / max(in_scope + count('feature'), 1):.1f} % with missing features counted"
    )
    unlisted = sorted(failed - set(scope))
    passing = sorted(name for name, word in scope.items() if word != "not" and ran.get(name) != "fail")
    for name in unlisted:
        print(f"  fails and is not in {suite.name}.txt: {name}")
    for name in passing:
        print(f"  is in {suite.name}.txt and does not fail: {name}")
    return not unlisted and not passing


def main():
    parser = argparse.ArgumentParser(description="Runs the drivers' own test suites.")
    parser.add_argument("--only", metavar="NAME", help="one of " + ", ".join(suite.name for suite in SUITES))
    parser.add_argument("--against-postgres", action="store_true", help="run them against PostgreSQL 15, and print what fails")
    parser.add_argument("--write", action="store_true", help="write the lists anew")
    arguments = parser.parse_args()
    chosen = [suite for suite in SUITES if arguments.only in (None, suite.name)]
    if not chosen:
        parser.error(f"there is no suite {arguments.only}")
    CACHE.mkdir(parents=True, exist_ok=True)
    is_right = True
    LibPq().fetch()  # Its certificates are the servers'.
    for suite in chosen:
        try:
            suite.fetch()
        except subprocess.CalledProcessError as error:
            print(f"{suite.name} {suite.version}: left out, as its sources cannot be fetched: {error}")
            continue
        kind = Postgres if arguments.against_postgres else Glimpse
        with tempfile.TemporaryDirectory(prefix="suites") as directory:
            with kind(pathlib.Path(directory), LibPq().directory() / "testdata" / "ssl") as server:
                results = suite.run(server)
                panics = server.panics()
        (CACHE / f"{suite.name}.{kind.__name__.lower()}.json").write_text(json.dumps(results, indent=1))
        if arguments.against_postgres:
            failed = sorted(name for name, result in results.items() if result == "fail")
            print(f"{suite.name} {suite.version}: {len(failed)} fail against PostgreSQL", *failed, sep="\n  ")
            continue
        if arguments.write:
            write_list(suite, read_list(suite), results)
        is_right &= report(suite, read_list(suite), results)
        for line in panics:
            print(f"  {line}")
            is_right = False
    sys.exit(0 if is_right else 1)


if __name__ == "__main__":
    main()
