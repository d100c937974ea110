/**
 * The service of the soak, in a process of its own so that its memory is its own. Speaks with its parent over
 * IPC; started with --expose-gc.
 */
import { z } from 'zod';
import { startSandbox } from '../../../src/sandbox/sandbox.ts';
import { STOCK_FOLDER, STOCK_MESSAGES } from './stock.ts';

const [stateFile] = process.argv.slice(2);
const failures: string[] = [];
const sandbox = await startSandbox({
  ...(stateFile === undefined ? {} : { stateFile }),
  settings: {
    // The soak asks more than any address may.
    platformRequestsPerMinute: null,
    webhookFirstRetryMs: 100,
    webhookLongestRetryMs: 1000,
    webhookAttempts: 20,
  },
  report: (error) => failures.push(error instanceof Error ? (error.stack ?? '') : String(error)),
});
const { service } = sandbox;
for (const { resourceId } of sandbox.mailboxes.slice(0, 1)) {
  const mailbox = service.store.mailboxes.get(resourceId);
  if (mailbox === undefined) continue;
  const folder = service.store.folderFor(mailbox, STOCK_FOLDER);
  for (let n = 1; n <= STOCK_MESSAGES; n += 1) {
    service.store.add(folder, Buffer.from(`Subject: stock ${n}\r\n\r\nStock.\r\n`), Date.now(), []);
  }
}

const question = z.enum(['state', 'stop']);
process.on('message', (message: unknown) => {
  if (question.parse(message) === 'stop') {
    void sandbox.close().then(() => process.disconnect());
    return;
  }
  globalThis.gc?.();
  const { heapUsed, external, rss } = process.memoryUsage();
  process.send?.({ heap: heapUsed + external, rss, requests: sandbox.requests(), failures });
});
const { mailboxUrl, tokens, mailboxes, control } = sandbox;
const orderId = service.store.mailboxes.get(mailboxes[0]?.resourceId ?? '')?.orderId ?? '';
process.send?.({ url: mailboxUrl, tokens, mailboxes, orderId, control });
