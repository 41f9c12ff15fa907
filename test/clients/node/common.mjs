// What the Node suites share. Suites connect with the PG* environment variables, over TLS and with a password. A failed
// check is an exception and a non-zero exit; the last line of a suite that passed is `ok`.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

// A query that ends only when it is cancelled.
export const ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b";

export const tls = { ca: readFileSync(process.env.PGSSLROOTCERT, "utf8") };

export function check(name, actual, expected) {
  assert.deepEqual(actual, expected, name);
  console.log(`  ${name}`);
}

export async function checkFails(code, act) {
  try {
    await act();
  } catch (error) {
    assert.equal(error.code, code, String(error));
    console.log(`  fails with ${code}`);
    return error;
  }
  assert.fail(`it did not fail with ${code}`);
}

// Calls `act` again and again until `done` has settled.
export async function meanwhile(done, act) {
  let over = false;
  const ended = done.then(
    () => (over = true),
    () => (over = true),
  );
  while (!over) {
    await act();
    await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, 20))]);
  }
}
