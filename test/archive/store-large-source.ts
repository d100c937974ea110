import { createHash } from 'node:crypto';
import { realFiles } from '../../src/archive/file-system.ts';
import { openLogReader } from '../../src/archive/log-reader.ts';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { Positions } from './positions.ts';

/** Run in a process of its own, so that its memory is its own: stores a file, streams it back, prints figures as JSON. */
const [, , dir = '', source = ''] = process.argv;

const writer = await openLogWriter({ dir, now: Date.now, files: realFiles });
const known = new Positions();
const baseline = process.memoryUsage().rss;
const batch = writer.newBatch();
const { id, size } = await batch.addSourceFile(
  source,
  (hash) => known.blobs.has(hash),
  async (blobs) => known.fold(await writer.commit(blobs)),
);
const sideCommits = known.batches.length;
known.fold(await writer.commit(batch));
await writer.close();

const reader = openLogReader({ dir, locator: known });
const digest = createHash('sha256');
for await (const piece of reader.streamMessage(id)) digest.update(piece);
const { maxRSS } = process.resourceUsage();
process.stdout.write(
  JSON.stringify({
    id,
    size,
    streamed: digest.digest('hex'),
    blobs: known.blobs.size,
    sideCommits,
    baseline,
    peak: maxRSS * 1024,
  }),
);
