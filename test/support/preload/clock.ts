import { readFileSync } from 'node:fs';

/*
 * Preloaded into a broker: the clock of all its threads is off by as many ms as the file BROKER_TEST_CLOCK says, and is
 * set again whenever the file is.
 */

const file = process.env.BROKER_TEST_CLOCK;
if (file !== undefined) {
  const now = Date.now.bind(Date);
  let off = 0;
  const read = (): void => {
    off = Number(readFileSync(file, 'utf8'));
  };
  read();
  setInterval(read, 20).unref();
  Date.now = () => now() + off;
}
