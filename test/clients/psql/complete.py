"""Types into psql under a pseudo-terminal, as a person does, and looks at what the tabulator key completes.

Run with psql's path; connects with the PG* environment variables. Prints one line per check and `ok` at the end; a failed
check is an exception and a non-zero exit. Needs no package.
"""

import os
import pty
import re
import select
import sys
import time

WAIT_S = 30

# What is typed, and what its last word becomes.
LINES = [
    ("SELECT * FROM thi", "things"),
    ("SELECT * FROM chea", "cheap"),
    ("SELECT * FROM shop.ord", "shop.orders"),
    ("UPDATE thi", "things"),
    ("INSERT INTO thi", "things"),
    ("DELETE FROM thi", "things"),
    ("DROP TABLE thi", "things"),
    ("DROP VIEW chea", "cheap"),
    ("DROP INDEX things_na", "things_name_at"),
    ("DROP MATERIALIZED VIEW tota", "totals"),
    ("DROP SCHEMA sho", "shop"),
    ("GRANT SELECT ON thi", "things"),
    ("ALTER TABLE things RENAME COLUMN pric", "price"),
    ("ALTER ROLE rea", "reader"),
    ("SET statement_time", "statement_timeout"),
    ("SHOW statement_time", "statement_timeout"),
    ("\\d thi", "things"),
    ("\\dt shop.ord", "shop.orders"),
    ("\\dv chea", "cheap"),
    ("\\dn sho", "shop"),
    ("\\du rea", "reader"),
    ("\\sv chea", "cheap"),
    ("\\c mater", "materialize"),
    ("COPY thi", "things"),
    ("CREATE INDEX i ON thi", "things"),
]


class Terminal:
    def __init__(self, arguments):
        self.seen = ""
        self.child, self.fd = pty.fork()
        if self.child == 0:
            os.environ.update(TERM="dumb", PAGER="cat", INPUTRC="/dev/null", HISTFILE="/dev/null")
            os.execvp(arguments[0], arguments)

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait_for(self, pattern):
        """Reads until the pattern is there, and returns what was read since the last call."""
        deadline = time.monotonic() + WAIT_S
        while not re.search(pattern, self.seen):
            ready, _, _ = select.select([self.fd], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise AssertionError(f"no {pattern!r} in {self.seen!r}")
            self.seen += os.read(self.fd, 65536).decode(errors="replace").replace("\x07", "")
        seen, self.seen = self.seen, ""
        return seen


def main():
    terminal = Terminal([sys.argv[1], "-X", "-q", "--set", "PROMPT1=> "])
    terminal.wait_for("> $")
    for typed, completed in LINES:
        terminal.type(typed + "\t")
        terminal.wait_for(re.escape(completed))
        # Away with the line; that psql echoes something shows that it listens again.
        terminal.type("\x15\\echo list''ening\n")
        if "ERROR" in terminal.wait_for("listening\r?\n"):
            raise AssertionError(typed)
        print(f"  {typed}")
    terminal.type("\\q\n")
    os.waitpid(terminal.child, 0)
    print("ok")


if __name__ == "__main__":
    main()
