import { expect, test } from 'vitest';
import { AwaitedMessages } from '../../src/daemon/daemon.ts';

const MAILBOX = { account: 'main', host: 'h', resourceId: 'AC1', address: 'a@example.org' };

test('a thousand announced messages are waited for in a mailbox, and no more', () => {
  const awaited = new AwaitedMessages();
  for (let uid = 1; uid <= 100_000; uid += 1) awaited.add(MAILBOX, uid);
  const other = { ...MAILBOX, resourceId: 'AC2' };
  awaited.add(other, 1);
  let asked = 0;
  const has = (uid: number): boolean => {
    asked += 1;
    return uid <= 999;
  };
  expect(awaited.settle(MAILBOX, has).againMs).toBe(1_000);
  expect(asked).toBe(1_000);
  expect(awaited.settle(other, () => false).againMs).toBe(1_000);
  // What has come makes room.
  awaited.add(MAILBOX, 100_001);
  asked = 0;
  awaited.settle(MAILBOX, has);
  expect(asked).toBe(2);
});
