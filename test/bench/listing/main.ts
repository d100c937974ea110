import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { fillArchive } from './fill-archive.ts';
import { type ListingFigures, passOver } from './pass-over.ts';

/**
 * `npm run listing`: what passes over one folder of many messages take in memory and time. The listing is
 * generated and the archive knows every message of it; no mail is stored. Each pass runs in a process of its own,
 * so that its peak is its own.
 */
const { values } = parseArgs({
  options: {
    counts: { type: 'string', default: '100000,300000,1000000' },
    dir: { type: 'string' },
    pass: { type: 'string' },
    count: { type: 'string' },
  },
});

const PASSES = ['quiet', 'deletion', 'full'] as const;

if (values.dir !== undefined && values.count !== undefined) {
  const pass = PASSES.find((name) => name === values.pass) ?? 'quiet';
  console.log(JSON.stringify(await passOver(values.dir, Number(values.count), pass)));
} else {
  for (const count of values.counts.split(',').map(Number)) await measure(count);
}

async function measure(count: number): Promise<void> {
  const dir = mkdtempSync(path.join(tmpdir(), 'mailkeep-listing-'));
  try {
    await fillArchive(dir, count);
    for (const pass of PASSES) {
      const { requests, cpuMs, peakBytes, result } = inOwnProcess(dir, count, pass);
      console.log(
        `${count} messages, ${pass}: ${requests} requests, ${Math.round(cpuMs)} ms of CPU, ${Math.round(peakBytes / 1e6)} MB at most, ended ${result.ended}, held ${result.held}`,
      );
    }
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

function inOwnProcess(dir: string, count: number, pass: string): ListingFigures {
  const script = fileURLToPath(import.meta.url);
  const own = ['--dir', dir, '--count', String(count), '--pass', pass];
  const run = spawnSync(process.execPath, ['--import', 'tsx', script, ...own], {
    stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8',
  });
  if (run.status !== 0) throw new Error(`the pass ended with ${run.status}`);
  return JSON.parse(run.stdout);
}
