import { parseArgs } from 'node:util';
import { countRequests } from './count-requests.ts';
import { quietDay } from './quiet-day.ts';

/**
 * `npm run requests`: counts what passes ask of the service, for a mailbox of any size. With `--mailboxes`, what a
 * daemon asks on a quiet day for so many mailboxes, with and without a token for the platform surface.
 */
const { values } = parseArgs({
  options: {
    folders: { type: 'string', default: '20' },
    messages: { type: 'string', default: '50000' },
    moved: { type: 'string', default: '1000' },
    mailboxes: { type: 'string' },
    every: { type: 'string', default: '60' },
    webhooks: { type: 'boolean', default: false },
  },
});
const { folders, messages, moved, mailboxes, every, webhooks } = values;
const figures =
  mailboxes === undefined
    ? await countRequests({
        folders: Number(folders),
        messages: Number(messages),
        moved: Number(moved),
      })
    : await quietDay({ mailboxes: Number(mailboxes), everyMinutes: Number(every), webhooks });
console.log(JSON.stringify(figures, null, 2));
