import { parseArgs } from 'node:util';
import { countRequests } from './count-requests.ts';

/** `npm run requests`: counts what passes ask of the service, for a mailbox of any size. */
const { values } = parseArgs({
  options: {
    folders: { type: 'string', default: '20' },
    messages: { type: 'string', default: '50000' },
    moved: { type: 'string', default: '1000' },
  },
});
const { folders, messages, moved } = values;
const figures = await countRequests({
  folders: Number(folders),
  messages: Number(messages),
  moved: Number(moved),
});
console.log(JSON.stringify(figures, null, 2));
